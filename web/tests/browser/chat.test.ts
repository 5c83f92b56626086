import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by, conversation, endAtFirstWord, visited } from "./visits.ts";
import { holdWorker, loseDevice, releaseWorker } from "./worker-patch.ts";

const PHONE = { width: 390, height: 780 };

const MARKDOWN = `Look:

\`\`\`python
print("hello")
\`\`\`

[good](https://example.com/) [bad](javascript:alert(1)) <img src="/x.png" onerror="alert(1)">
![picture](https://example.com/x.png) <script>alert(1)</script>

${">".repeat(20)} deep
`;

/** One with more turns than a context of 512 tokens holds. */
function longConversation() {
  const text = "A page is a block of memory for the keys and values of sixteen tokens. ";
  const messages = Array.from({ length: 12 }, (_, i) => ({
    id: `long-${i}`,
    role: i % 2 === 0 ? "user" : "assistant",
    content: i % 2 === 0 ? `Question ${i}` : text.repeat(5),
  }));
  return { id: "long", title: "Long", updated: 3, system: "", settings: {}, messages };
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

  it("are one stop of the tab key each; arrow keys lead to what can be done with them", async () => {
    await by(page, "new-conversation").focus();
    const stops: string[] = [];
    for (const key of ["Tab", "ArrowRight", "End", "Tab", "Tab", "End", "ArrowLeft", "Home"]) {
      await page.keyboard.press(key);
      stops.push(await focused(page));
    }
    expect(stops).toEqual([
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

  const ready = () =>
    by(page, "device-status")
      .filter({ hasText: /^Ready on/ })
      .waitFor(WAIT);
  /** Ends the wait of the first download. */
  let release = () => {};
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
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    session.proxy.fault = (path) => (path.includes("/params/") ? { kind: "wait", until } : null);
    await page.goto(session.proxy.url);
    await by(page, "model-picker").selectOption("/bundles/demo-q4/");
  });
  afterAll(() => session?.close());

  it("keeps nobody out while its model is loaded", async () => {
    await by(page, "load-progress").waitFor(WAIT);
    expect(await barriers(page)).toEqual([]);
  });

  it("is not to be had while loading is cancelled, but later", async () => {
    await by(page, "cancel-load").click();
    session.proxy.fault = () => null;
    release();
    await page.getByRole("heading", { name: "Choose a model" }).waitFor(WAIT);
    await page.locator(".offer", { hasText: "demo-q4" }).click();
    await ready();
    await page.locator(".hello").waitFor();
    expect(await barriers(page)).toEqual([]);
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

  it("goes on in the same message where the length limit cut it off, and is not read again", async () => {
    const before = (await by(page, "assistant-message").locator(".markdown").textContent()) ?? "";
    await by(page, "continue").click();
    await by(page, "stats").filter({ hasText: "cached" }).waitFor(WAIT);
    expect(await by(page, "assistant-message").count()).toBe(1);
    const whole = await by(page, "assistant-message").locator(".markdown").textContent();
    expect(whole?.startsWith(before.trim())).toBe(true);
    expect(whole?.length).toBeGreaterThan(before.length);
    const stats = (await by(page, "stats").textContent()) ?? "";
    const [, cached, prompt] = /(\d+) of (\d+) prompt tokens cached/.exec(stats) ?? [];
    // Pages are found again whole, and one holds 16 tokens.
    expect(Number(prompt) - Number(cached)).toBeLessThanOrEqual(16);
  });

  it("is not asked for by the Enter that ends a composition in Safari", async () => {
    const asked = await by(page, "user-message").count();
    await by(page, "prompt").fill("こんにちは");
    await by(page, "prompt").evaluate((area) =>
      area.dispatchEvent(
        new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true }),
      ),
    );
    expect(await by(page, "prompt").inputValue()).toBe("こんにちは");
    expect(await by(page, "user-message").count()).toBe(asked);
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

  it("keeps nobody out while it is written", async () => {
    await begin("Tell me a very long story about the sea.");
    await holdWorker(page);
    expect(await barriers(page)).toEqual([]);
    expect(await by(page, "stop").count()).toBe(1);
    await releaseWorker(page);
    await ended();
  });

  it("ends on Escape, wherever the focus is", async () => {
    const index = await by(page, "assistant-message").count();
    const escaped = page.evaluate(endAtFirstWord, { index, by: "Escape" } as const);
    await begin("Tell me a very long story about the sea.");
    await escaped;
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

  it("reads the end of a conversation that the context does not hold, and says from where", async () => {
    await visited(page, [longConversation()]);
    await by(page, "conversation")
      .filter({ hasText: /^Long$/ })
      .click();
    await ready();
    await by(page, "settings").click();
    await by(page, "load-options").locator("summary").click();
    await by(page, "context-picker").selectOption("512");
    await by(page, "program-picker").selectOption("webgpu-f32");
    await by(page, "load-again").click();
    await by(page, "load-progress").waitFor();
    await ready();
    await by(page, "settings").click();
    expect(await by(page, "loaded").textContent()).toMatch(/webgpu-f32.*512 tokens.*Weights/s);
    await page.getByLabel("Longest answer").fill("5");
    await page.getByRole("button", { name: "Done" }).click();
    await begin("And now?");
    await ended();
    await by(page, "begins").waitFor();
    const read = page.locator("[data-testid=begins] ~ [data-testid=user-message]");
    expect(await read.count()).toBeGreaterThan(1);
    expect(await read.count()).toBeLessThan(7);
    expect(await by(page, "context").textContent()).toMatch(/^\d+ of 512 tokens/);
    expect(await barriers(page)).toEqual([]);
  });

  it("needs a model, which is deleted in the settings", async () => {
    const option = by(page, "model-picker").locator("option", { hasText: "demo-q4" });
    expect(await option.textContent()).toContain("on this device");
    await by(page, "settings").click();
    const remove = page.getByRole("button", { name: "Delete demo-q4" });
    await remove.click();
    await remove.click();
    await remove.waitFor({ state: "detached" });
    await option.filter({ hasNotText: "on this device" }).waitFor({ state: "attached" });
  });

  it("complains of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});
