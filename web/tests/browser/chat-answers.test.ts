import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by, endAtFirstWord, focused, visited } from "./visits.ts";
import { holdWorker, loseDevice, releaseWorker } from "./worker-patch.ts";

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

  it("is about files, which are counted before they are sent and can be taken out again", async () => {
    await by(page, "new-conversation").click();
    const text = (name: string, content: string) => ({
      name,
      mimeType: "text/plain",
      buffer: Buffer.from(content),
    });
    const picture = { ...text("cat.png", ""), buffer: Buffer.from([0x89, 0x50, 0x4e, 0x47]) };
    await by(page, "files").setInputFiles([
      text("notes.md", "The robot is called Ada.\n"),
      picture,
    ]);
    await by(page, "unattached").filter({ hasText: "cat.png is no text in UTF-8." }).waitFor();
    await by(page, "measured")
      .filter({ hasText: /^\d+ of [\d,]+ tokens/ })
      .waitFor(WAIT);
    expect(await barriers(page)).toEqual([]);
    await by(page, "files").setInputFiles(text("long.txt", "word ".repeat(100_000)));
    await by(page, "unattached")
      .filter({ hasText: /^This does not fit\./ })
      .waitFor(WAIT);
    expect(await by(page, "send").isDisabled()).toBe(true);
    await page.getByLabel("Remove long.txt").click();
    await expect.poll(() => focused(page)).toBe("Remove notes.md");
    await by(page, "measured").filter({ hasText: "tokens" }).waitFor(WAIT);
    await begin("What is the robot called?");
    await ended();
    expect(await by(page, "attached").count()).toBe(0);
    await by(page, "message-file").locator("summary").click();
    expect(await by(page, "message-file").locator("pre").textContent()).toContain("Ada");
    expect(await barriers(page)).toEqual([]);
  });

  it("is about a file that was dropped on the page", async () => {
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      const text = "It is blue. ".repeat(50_000);
      dataTransfer.items.add(new File([text], "sky.txt", { type: "text/plain" }));
      const how = { dataTransfer, bubbles: true, cancelable: true };
      document.body.dispatchEvent(new DragEvent("dragover", how));
      document.body.dispatchEvent(new DragEvent("drop", how));
    });
    await by(page, "file").filter({ hasText: "sky.txt" }).waitFor();
    await by(page, "prompt").fill("Which colour has the sky?");
    await by(page, "unattached")
      .filter({ hasText: /^This does not fit\./ })
      .waitFor(WAIT);
    expect(await by(page, "send").isDisabled()).toBe(true);
    await page.getByLabel("Remove sky.txt").click();
    await by(page, "file").waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Message");
    expect(await by(page, "send").isDisabled()).toBe(false);
    await by(page, "prompt").fill("");
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
