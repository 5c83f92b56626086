import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FULL } from "../suite.ts";
import { barriers } from "./axe.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by, endAtFirstWord, offeredOnly } from "./visits.ts";

const ADAPTERS = FULL ? (["lavapipe", "swiftshader"] as const) : (["lavapipe"] as const);
const SHARD = "/bundles/demo-q4/params/gpu/00000.safetensors";

const messages = (page: Page) => by(page, "assistant-message");

/** Open the app and load a bundle from its list. */
async function loadModel(session: Session, page: Page, name = "demo-q4"): Promise<void> {
  await page.goto(session.proxy.url);
  await by(page, "model-picker").selectOption(`/bundles/${name}/`);
}

async function ready(page: Page): Promise<void> {
  await by(page, "device-status")
    .filter({ hasText: /^Ready on/ })
    .waitFor(WAIT);
}

/** Ask, and wait for the whole answer. */
async function ask(page: Page, text: string): Promise<string> {
  const count = await messages(page).count();
  await by(page, "prompt").fill(text);
  await by(page, "prompt").press("Enter");
  return finished(page, count);
}

async function finished(page: Page, index: number): Promise<string> {
  const answer = messages(page).nth(index);
  await answer.getByTestId("stats").waitFor(WAIT);
  return (await answer.locator(".markdown").textContent()) ?? "";
}

/** Ends a page's process, as a system without memory does. */
async function kill(page: Page): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const killed = page.waitForEvent("crash");
  devtools.send("Page.crash").catch(() => {}); // nobody is left to answer
  await killed;
}

describe.each(ADAPTERS)("the chat app on %s", (adapter) => {
  let session: Session;
  let page: Page;

  beforeAll(async () => {
    session = await openSession(adapter);
    page = await session.page();
    await loadModel(session, page);
  });
  afterAll(() => session?.close());

  it("loads the model that is picked", async () => {
    await ready(page);
    expect(session.proxy.fetched.map(({ path }) => path)).toContain(SHARD);
  });

  it("streams an answer, and says how fast it was", async () => {
    await page.evaluate(() => {
      const seen = new Set<number>();
      Object.assign(globalThis, { seen });
      new MutationObserver(() => {
        const text = document.querySelector("[data-testid=assistant-message] .markdown");
        if (text?.textContent) seen.add(text.textContent.length);
      }).observe(document.body, { childList: true, subtree: true, characterData: true });
    });
    const answer = await ask(page, "Tell me a story about a small robot.");
    expect(answer.length).toBeGreaterThan(20);
    const steps = await page.evaluate(() => Reflect.get(globalThis, "seen").size);
    expect(steps).toBeGreaterThan(1); // a busy machine draws few frames
    expect(await by(page, "stats").textContent()).toMatch(/tok.* · first token .* prompt tokens/);
  });

  it("stops an answer where it is", async () => {
    const count = await messages(page).count();
    const stopped = page.evaluate(endAtFirstWord, { index: count, by: "Stop" } as const);
    await by(page, "prompt").fill("Tell me a very long story about the sea.");
    await by(page, "send").click();
    await stopped;
    await finished(page, count);
    const stats = messages(page).nth(count).getByTestId("stats");
    expect(await stats.textContent()).toContain("stopped");
  });

  it("asks an edited question again, and turns back to what followed it before", async () => {
    await by(page, "edit").first().click();
    await page.getByLabel("Edit your message").fill("Hello! Who are you?");
    await page.getByRole("button", { name: "Send again" }).click();
    await finished(page, 0);
    expect(await by(page, "user-message").locator(".text").allTextContents()).toEqual([
      "Hello! Who are you?",
    ]);
    expect(await messages(page).count()).toBe(1);
    const versions = by(page, "user-message").first().getByTestId("versions");
    expect(await versions.textContent()).toContain("2/2");
    await versions.getByRole("button", { name: "Version before" }).click();
    expect(await by(page, "user-message").count()).toBe(2);
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("Enter");
    expect(await by(page, "user-message").count()).toBe(1);
  });

  it("keeps a second conversation apart from the first", async () => {
    await by(page, "new-conversation").click();
    expect(await messages(page).count()).toBe(0);
    await ask(page, "Count from one to ten.");
    expect(await by(page, "conversation").count()).toBe(2);
    await by(page, "conversation").nth(1).click();
    const text = by(page, "user-message").locator(".text");
    expect(await text.allTextContents()).toEqual(["Hello! Who are you?"]);
  });

  it("goes on with the answer that closing the page broke off", async () => {
    const question = "Tell me a story about a small robot.";
    await page.evaluate(() => {
      const seen = new MutationObserver(() => {
        const text = [...document.querySelectorAll("[data-testid=assistant-message]")].at(-1);
        const said = text?.querySelector(".markdown")?.textContent ?? "";
        if (text?.querySelector("[data-testid=stats]") || said.length < 12) return;
        seen.disconnect();
        sessionStorage.setItem("said", said);
        location.reload();
      });
      seen.observe(document.body, { childList: true, subtree: true, characterData: true });
    });
    await by(page, "new-conversation").click();
    await by(page, "settings").click();
    await page.getByLabel("Temperature").fill("0");
    await page.getByRole("button", { name: "Done" }).click();
    const reloaded = page.waitForEvent("load");
    await by(page, "prompt").fill(question);
    await by(page, "prompt").press("Enter");
    await reloaded;
    const answer = await finished(page, 0);
    const said = await page.evaluate(() => sessionStorage.getItem("said") ?? "");
    expect(said.length).toBeGreaterThanOrEqual(12);
    expect(answer.startsWith(said.trimEnd())).toBe(true);
    expect(answer.length).toBeGreaterThan(said.length);
    expect(await messages(page).count()).toBe(1);
    expect(await by(page, "user-message").count()).toBe(1);
    await ready(page);
  });

  it("opens, loads and answers without a network", async () => {
    await page.evaluate(() => navigator.serviceWorker.ready);
    session.proxy.down = true;
    await session.browser.context.setOffline(true);
    await page.reload();
    await ready(page);
    expect(await by(page, "conversation").count()).toBe(3);
    expect((await ask(page, "How are you today?")).length).toBeGreaterThan(0);
    await session.browser.context.setOffline(false);
    session.proxy.down = false;
  });

  it("complained of nothing but the network it did not have", () => {
    const others = session.complaints.filter((text) => !text.includes("ERR_INTERNET_DISCONNECTED"));
    expect(others).toEqual([]);
  });
});

describe("where the app cannot do what it is asked, it says so", () => {
  let session: Session;

  beforeAll(async () => {
    session = await openSession("lavapipe");
  });
  afterAll(() => session?.close());

  it("the adapter is too small", async () => {
    const limits = { maxStorageBufferBindingSize: 64 << 20 };
    const page = await session.page({ limits });
    await loadModel(session, page);
    await by(page, "error").waitFor(WAIT);
    const text = await by(page, "error").textContent();
    expect(text).toContain("maxStorageBufferBindingSize");
    expect(text).toContain("device.limits");
    expect(session.proxy.fetched.map(({ path }) => path)).not.toContain(SHARD);
    expect(await barriers(page)).toEqual([]);
  });

  it("a download is damaged; trying again repairs it", async () => {
    const page = await session.page();
    session.proxy.fault = (path) => (path === SHARD ? { kind: "flip", at: 5000 } : null);
    await loadModel(session, page);
    await by(page, "error").waitFor(WAIT);
    expect(await by(page, "error").textContent()).toContain("bundle.checksum");
    session.proxy.fault = () => null;
    await page.getByRole("button", { name: "Try again" }).click();
    await ready(page);
  });

  it("the browser killed the page at loading a model; that does not load by itself again", async () => {
    const page = await session.page();
    await loadModel(session, page);
    await ready(page);
    session.proxy.fault = () => ({ kind: "wait", until: new Promise(() => {}) });
    await page.reload(); // which loads the model of the visit before
    await by(page, "load-progress").waitFor(WAIT);
    await kill(page);
    session.proxy.fault = () => null;
    const next = await session.page();
    await next.goto(session.proxy.url);
    await by(next, "interrupted").waitFor(WAIT);
    expect(await barriers(next)).toEqual([]);
    expect(await by(next, "load-progress").count()).toBe(0);
    expect(await barriers(next)).toEqual([]);
    await by(next, "load-less").click();
    await ready(next);
    expect(await by(next, "interrupted").count()).toBe(0);
    await next.reload();
    await ready(next);
  });
});

describe("in a browser without an adapter, the app", () => {
  let session: Session;

  beforeAll(async () => {
    session = await openSession("none");
  });
  afterAll(() => session?.close());

  it("says what is missing and what would help", async () => {
    const page = await session.page();
    await offeredOnly(page);
    await page.goto(session.proxy.url);
    // What would help depends on what the host says of itself, which the page does not wait for.
    await expect
      .poll(() => by(page, "error").textContent(), WAIT)
      .toMatch(/needs WebGPU.*Use Chrome/s);
    expect(await by(page, "send").isDisabled()).toBe(true);
    expect(await barriers(page)).toEqual([]);
  });
});
