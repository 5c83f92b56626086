import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { openSession, type Session } from "./session.ts";
import { by, conversation, focused, visited } from "./visits.ts";

const PHONE = { width: 390, height: 780 };

const MARKDOWN = `Look:

\`\`\`python
print("hello")
\`\`\`

[good](https://example.com/) [bad](javascript:alert(1)) <img src="/x.png" onerror="alert(1)">
![picture](https://example.com/x.png) <script>alert(1)</script>

${">".repeat(20)} deep
`;

describe("conversations of an earlier visit", () => {
  let session: Session;
  let page: Page;
  const requested: string[] = [];
  let exported: Buffer;
  const fileOf = (content: Buffer | string) => ({
    name: "conversations.json",
    mimeType: "application/json",
    buffer: Buffer.from(content),
  });

  beforeAll(async () => {
    session = await openSession("lavapipe");
    page = await session.page();
    const { origin } = new URL(session.proxy.url);
    await session.browser.context.grantPermissions(["clipboard-read", "clipboard-write"], {
      origin,
    });
    await page.goto(session.proxy.url);
    await by(page, "prompt").waitFor();
    page.on("request", (request) => requested.push(request.url()));
    await visited(page, [
      conversation("c1", "About code", 2, MARKDOWN),
      conversation("c2", "About pages", 1, "A page is a block."),
      conversation("c3", "Hostile", 0, `${">".repeat(20_000)} deep`),
    ]);
  });
  afterAll(() => session?.close());

  it("are listed by when they were last changed", async () => {
    expect(await by(page, "conversation").allTextContents()).toEqual([
      "About code",
      "About pages",
      "Hostile",
    ]);
  });

  it("are one stop of the tab key each; arrow keys lead to what can be done with them", async () => {
    await by(page, "new-conversation").focus();
    const stops: string[] = [];
    for (const key of [
      "Tab",
      "Tab",
      "ArrowRight",
      "End",
      "Tab",
      "Tab",
      "End",
      "ArrowLeft",
      "Home",
    ]) {
      await page.keyboard.press(key);
      stops.push(await focused(page));
    }
    expect(stops).toEqual([
      "Search conversations",
      "About code",
      "Rename “About code”",
      "Delete “About code”",
      "About pages",
      "Hostile",
      "Delete “Hostile”",
      "Rename “Hostile”",
      "Hostile",
    ]);
  });

  it("are found by what was said in them, with the keyboard alone", async () => {
    await by(page, "search").fill("PAGE is a");
    await by(page, "found").filter({ hasText: "In 1 conversation." }).waitFor();
    expect(await by(page, "hit").textContent()).toBe("About pagesA page is a block.");
    expect(await by(page, "hit").locator("mark").textContent()).toBe("page is a");
    expect(await barriers(page)).toEqual([]);
    await by(page, "search").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    expect(await focused(page)).toBe("Search conversations");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator(".markdown", { hasText: "A page is a block." }).waitFor();
    await by(page, "search").fill("no such words");
    await by(page, "found").filter({ hasText: "Nothing found." }).waitFor();
    await page.keyboard.press("Escape");
    expect(await by(page, "search").inputValue()).toBe("");
    expect(await focused(page)).toBe("Search conversations");
    expect(await by(page, "conversation").count()).toBe(3);
  });

  it("show what a model wrote, but run and fetch nothing of it", async () => {
    await by(page, "conversation").first().click();
    await by(page, "copy-code").waitFor();
    const links = await page
      .locator(".markdown a")
      .evaluateAll((all) =>
        all.map((link) => ["href", "rel", "target"].map((name) => link.getAttribute(name))),
      );
    const rel = "noopener noreferrer nofollow";
    expect(links).toEqual([
      ["https://example.com/", rel, "_blank"],
      [null, rel, "_blank"],
    ]);
    expect(await page.locator(".markdown").locator("img, script").count()).toBe(0);
    expect(requested.filter((url) => !url.startsWith(session.proxy.url))).toEqual([]);
  });

  it("give code away", async () => {
    await by(page, "copy-code").click();
    await by(page, "copy-code").filter({ hasText: "Copied" }).waitFor();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('print("hello")');
  });

  it("keep nobody out, nor does the choice of a model", async () => {
    await by(page, "conversation").nth(1).click();
    await by(page, "load-options").first().locator("summary").click();
    await by(page, "program-picker")
      .first()
      .locator("option")
      .nth(1)
      .waitFor({ state: "attached" });
    expect(await barriers(page)).toEqual([]);
    await by(page, "settings").click();
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
  });

  it("show as text what no page can be made of", async () => {
    await by(page, "conversation").nth(2).click();
    expect(await page.locator(".markdown").textContent()).toContain("deep");
  });

  it("get other names", async () => {
    await page.getByLabel("Rename “About pages”").focus();
    await page.keyboard.press("Enter");
    await page.getByLabel("Title").fill("Pages");
    await page.keyboard.press("Enter");
    await by(page, "conversation")
      .filter({ hasText: /^Pages$/ })
      .waitFor();
    await expect.poll(() => focused(page)).toBe("Pages");
    await page.reload();
    await by(page, "conversation")
      .filter({ hasText: /^Pages$/ })
      .waitFor();
  });

  it("are deleted, and brought back by who did not mean it", async () => {
    await page.getByLabel("Delete “Pages”").focus();
    await page.keyboard.press("Enter");
    await by(page, "removed").waitFor();
    expect(await by(page, "conversation").count()).toBe(2);
    expect(await focused(page)).toBe("Hostile");
    await page.getByRole("button", { name: "Undo" }).click();
    await by(page, "conversation").nth(2).waitFor();
  });

  it("are saved as a file", async () => {
    await by(page, "settings").click();
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export all" }).click();
    const saved = await (await saving).createReadStream();
    const parts: Uint8Array[] = [];
    for await (const part of saved) parts.push(part);
    exported = Buffer.concat(parts);
    expect(JSON.parse(exported.toString()).conversations).toHaveLength(3);
    await page.keyboard.press("Escape");
  });

  it("are taken in from a file again, without those that are here", async () => {
    await page.getByLabel("Delete “Pages”").focus();
    await page.keyboard.press("Enter");
    await by(page, "removed").getByLabel("Dismiss").click();
    await by(page, "settings").click();
    await by(page, "import").setInputFiles(fileOf(exported));
    const told = by(page, "imported");
    await told.filter({ hasText: "1 conversation imported; 2 already here." }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.reload();
    await by(page, "conversation").nth(2).waitFor();
  });

  it("are none where a file says what cannot be, and it is said what", async () => {
    await by(page, "settings").click();
    const wrong = exported.toString().replace('"settings": {}', '"settings": {"topK": 1e9}');
    await by(page, "import").setInputFiles(fileOf(wrong));
    const told = page.locator("[role=alert][data-testid=imported]");
    await told.filter({ hasText: "settings.topK is 1000000000, not a whole number" }).waitFor();
    expect(await told.textContent()).toContain("Nothing was imported.");
    await page.keyboard.press("Escape");
    expect(await by(page, "conversation").count()).toBe(3);
  });

  it("lie in a drawer on a phone, which takes the focus and gives it back", async () => {
    await page.setViewportSize(PHONE);
    await by(page, "conversation").first().waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Conversations", exact: true }).click();
    await by(page, "conversation").first().waitFor();
    await expect.poll(() => focused(page)).toBe("New conversation");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.activeElement?.matches(".menu"));
    await page.setViewportSize({ width: 1100, height: 720 });
  });

  it("have a theme that follows the system until a person chooses", async () => {
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    await by(page, "theme").click();
    expect(await theme()).toBe("light");
    await page.reload();
    await by(page, "prompt").waitFor();
    expect(await theme()).toBe("light");
  });

  it("are skipped by who begins with the keyboard", async () => {
    const first = page.locator("a[href], button, input, select, textarea").first();
    await first.focus();
    expect(await focused(page)).toBe("Skip to the message");
    await page.keyboard.press("Enter");
    expect(await focused(page)).toBe("Message");
  });

  it("belong to an app that can be installed", async () => {
    const icons = await page.evaluate(async () => {
      const manifest = await (await fetch("/manifest.webmanifest")).json();
      const found: string[] = manifest.icons.map(({ src }: { src: string }) => src);
      return Promise.all(found.map(async (src) => (await fetch(src)).headers.get("Content-Type")));
    });
    expect(icons).toEqual(["image/svg+xml", ...Array(3).fill("image/png")]);
  });

  it("complain of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});
