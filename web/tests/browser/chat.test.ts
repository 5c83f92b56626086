import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Conversation } from "../../chat/conversations.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { loseDevice } from "./worker-patch.ts";

const PHONE = { width: 390, height: 780 };

const by = (page: Page, name: string): Locator => page.getByTestId(name);

const MARKDOWN = `Look:

\`\`\`python
print("hello")
\`\`\`

[good](https://example.com/) [bad](javascript:alert(1)) <img src="/x.png" onerror="alert(1)">
![picture](https://example.com/x.png) <script>alert(1)</script>

${">".repeat(20)} deep
`;

function conversation(id: string, title: string, updated: number, answer: string): Conversation {
  const messages = [
    { id: `${id}-q`, role: "user", content: "A question" },
    { id: `${id}-a`, role: "assistant", content: answer },
  ] as const;
  return { id, title, updated, system: "", settings: {}, messages };
}

/** Conversations kept by an earlier visit. */
async function visited(page: Page, conversations: readonly Conversation[]): Promise<void> {
  await page.evaluate(async (kept) => {
    const opening = indexedDB.open("edgewise-chat", 1);
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    const writing = database.transaction("conversations", "readwrite");
    for (const one of kept) writing.objectStore("conversations").put(one);
    await new Promise((resolve) => {
      writing.oncomplete = resolve;
    });
    database.close();
  }, conversations);
  await page.reload();
  await by(page, "conversation").first().waitFor();
}

const focused = (page: Page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    return element?.getAttribute("aria-label") ?? element?.textContent?.trim() ?? "";
  });

describe("conversations of an earlier visit", () => {
  let session: Session;
  let page: Page;
  const requested: string[] = [];

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
    const { conversations } = JSON.parse(Buffer.concat(parts).toString());
    expect(conversations).toHaveLength(3);
    await page.keyboard.press("Escape");
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

describe("an answer in the app", () => {
  let session: Session;
  let page: Page;

  /** Ask without waiting for more than the first words. */
  const begin = async (text: string) => {
    await by(page, "prompt").fill(text);
    await by(page, "prompt").press("Enter");
    await by(page, "assistant-message").last().locator(".markdown").waitFor(WAIT);
  };
  const ended = async () => {
    await by(page, "assistant-message").last().getByTestId("stats").waitFor(WAIT);
    return by(page, "assistant-message").last().locator(".markdown").textContent();
  };

  beforeAll(async () => {
    session = await openSession("lavapipe");
    page = await session.page({});
    await page.goto(session.proxy.url);
    await by(page, "model-picker").selectOption("/bundles/demo-q4/");
  });
  afterAll(() => session?.close());

  it("is not to be had while loading is cancelled, but later", async () => {
    await by(page, "cancel-load").click();
    await page.getByRole("heading", { name: "Choose a model" }).waitFor(WAIT);
    await page.locator(".offer", { hasText: "demo-q4" }).click();
    await by(page, "device-status")
      .filter({ hasText: /^Ready on/ })
      .waitFor(WAIT);
  });

  it("follows the conversation's settings, where the model's own are shown", async () => {
    await by(page, "settings").click();
    const longest = page.getByLabel("Longest answer");
    await page.locator("[placeholder='200']").waitFor();
    await longest.fill("5");
    await page.getByLabel("Temperature").fill("0");
    await page.getByRole("button", { name: "Done" }).click();
    await begin("Tell me a story about a small robot.");
    await ended();
    expect(await by(page, "stats").textContent()).toContain("length limit");
    await by(page, "settings").click();
    await longest.fill("");
    await page.getByRole("button", { name: "Done" }).click();
  });

  it("is read aloud once, when it has ended", async () => {
    const said = page.locator("[aria-live=polite]").last();
    await begin("Tell me a story about a small robot.");
    expect(await said.textContent()).toBe("");
    const text = await ended();
    await page.waitForFunction(
      (text) => document.querySelector("p[aria-live=polite]")?.textContent?.trim() === text,
      text?.trim(),
    );
  });

  it("ends on Escape, wherever the focus is", async () => {
    await begin("Tell me a very long story about the sea.");
    await by(page, "theme").focus();
    await page.keyboard.press("Escape");
    await ended();
    expect(await by(page, "stats").last().textContent()).toContain("stopped");
  });

  it("goes on by itself when the GPU is lost, and says so meanwhile", async () => {
    await page.evaluate(() => {
      const seen: string[] = [];
      Object.assign(globalThis, { statuses: seen });
      const status = document.querySelector("[data-testid=device-status]");
      if (!status) return;
      new MutationObserver(() => seen.push(status.textContent ?? "")).observe(status, {
        childList: true,
        subtree: true,
        characterData: true,
      });
    });
    await by(page, "new-conversation").click();
    await loseDevice(page, 2);
    await begin("Tell me a very long story about the sea.");
    expect((await ended())?.length).toBeGreaterThan(20);
    await by(page, "device-status")
      .filter({ hasText: /^Ready on/ })
      .waitFor(WAIT);
    expect(await page.evaluate(() => Reflect.get(globalThis, "statuses")[0])).toContain("lost");
    expect(await by(page, "error").count()).toBe(0);
  });

  it("needs a model, which is deleted in the settings", async () => {
    const option = by(page, "model-picker").locator("option", { hasText: "demo-q4" });
    expect(await option.textContent()).toContain("on this device");
    await by(page, "settings").click();
    const remove = page.getByRole("button", { name: "Delete demo-q4" });
    await remove.click();
    await remove.click();
    await remove.waitFor({ state: "detached" });
    expect(await option.textContent()).not.toContain("on this device");
  });

  it("complains of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});
