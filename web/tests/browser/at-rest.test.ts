import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { Random } from "../engine/random.ts";
import { FULL } from "../suite.ts";
import { type AdapterName, launch, type RunningBrowser } from "./launch.ts";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { type HostProxy, startProxy } from "./proxy.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "/bundles/demo-q4/";
const PAGE_TOKENS = 16;
const random = new Random(11);
/** The demo model's vocabulary has 4,096, of which the first are special. */
const tokens = (count: number) => Array.from({ length: count }, () => random.whole(300, 4000));
const PROMPT = tokens(1000);
const PAGES = Math.floor((PROMPT.length - 1) / PAGE_TOKENS);
const ADAPTERS: readonly AdapterName[] = ["lavapipe", "swiftshader"];

describe.each(ADAPTERS)("pages at rest, on %s", (adapter) => {
  let browser: RunningBrowser;
  let proxy: HostProxy;
  let session: Session;
  let page: Page;
  let cold: Awaited<ReturnType<typeof answer>>;

  /** A new page of the origin with the model in it. */
  async function open(): Promise<Page> {
    const made = await session.library();
    const loaded = await made.evaluate(
      (url) => library.load("it", url, { keepPages: 1 << 28 }),
      BUNDLE,
    );
    expect(loaded).toHaveProperty("value");
    return made;
  }

  async function answer(where: Page, prompt: readonly number[]) {
    const before = await where.evaluate(() => library.stats("it"));
    const found = await where.evaluate(
      (prompt) =>
        library.generate("it", prompt, { maxTokens: 16, temperature: 0, ignoreEos: true }),
      prompt,
    );
    if (!("value" in found)) throw new Error(found.error.message);
    const after = await where.evaluate(() => library.stats("it"));
    return { ...found.value, dispatches: after.dispatches - before.dispatches };
  }

  /** Wait until so many pages are kept. */
  async function kept(where: Page, pages: number): Promise<void> {
    const now = () => where.evaluate(async () => (await library.stats("it")).pagesKept);
    await expect.poll(now, { interval: 50, timeout: WAIT.timeout }).toBeGreaterThanOrEqual(pages);
  }

  async function restart(how: "end" | "kill"): Promise<void> {
    browser = await browser.restart(how);
    session = await openSession(browser, proxy);
    page = await open();
  }

  beforeAll(async () => {
    browser = await launch(adapter, inject("profiles"));
    proxy = await startProxy(inject("host"));
    session = await openSession(browser, proxy);
    page = await open();
    cold = await answer(page, PROMPT);
  });
  afterAll(async () => {
    await browser?.close();
    await proxy?.close();
  });

  it("begin an answer after a restart: nothing is computed of them, and it says the same", async () => {
    expect(cold.cachedTokens).toBe(0);
    await kept(page, PAGES);
    await restart("end");
    const restored = await answer(page, PROMPT);
    expect(restored.tokenIds).toEqual(cold.tokenIds);
    expect(restored.cachedTokens).toBe(PAGES * PAGE_TOKENS);
    expect(await page.evaluate(() => library.stats("it"))).toMatchObject({ pagesRestored: PAGES });
    const warm = await answer(page, PROMPT);
    expect(warm.tokenIds).toEqual(cold.tokenIds);
    expect(restored.dispatches).toBe(warm.dispatches);
    expect(restored.dispatches).toBeLessThan(cold.dispatches);
  });

  if (adapter !== "lavapipe" && !FULL) return; // where everything takes long

  it("begin another conversation in another tab, which only reads", async () => {
    const other = await open();
    const alike = [...PROMPT.slice(0, 600), ...tokens(100)];
    const found = await answer(other, alike);
    expect(found.cachedTokens).toBe(592);
    await other.evaluate(() => library.close("it"));
    const alone = await session.library();
    await alone.evaluate((url) => library.load("it", url, {}), BUNDLE);
    const computed = await answer(alone, alike);
    expect([computed.cachedTokens, computed.tokenIds]).toEqual([0, found.tokenIds]);
    await alone.close();
    await other.close();
  });

  it("are not believed where a byte of them has changed", async () => {
    const changed = await page.evaluate(async () => {
      const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(
        "edgewise-pages",
      );
      const blobs = await root.getDirectoryHandle("blobs");
      let count = 0;
      for await (const name of blobs.keys()) {
        const handle = await blobs.getFileHandle(name);
        const data = new Uint8Array(await (await handle.getFile()).arrayBuffer());
        const at = Math.floor((data.length * (count % 7)) / 7);
        data[at] = (data[at] ?? 0) ^ 16;
        const writable = await handle.createWritable();
        await writable.write(data);
        await writable.close();
        count += 1;
      }
      return count;
    });
    expect(changed).toBeGreaterThanOrEqual(PAGES);
    await restart("end");
    const found = await answer(page, PROMPT);
    expect([found.cachedTokens, found.tokenIds]).toEqual([0, cold.tokenIds]);
  });

  it("are whole or missing after the browser was killed while it saved and answered", async () => {
    for (let round = 0; round < (FULL ? 8 : 2); round++) {
      await kept(page, random.whole(1, PAGES));
      void answer(page, tokens(900)).catch(() => undefined);
      await restart("kill");
      const found = await answer(page, PROMPT);
      expect(found.tokenIds).toEqual(cold.tokenIds);
    }
  });

  it("go when the app clears them while they are saved, and do not come back", async () => {
    await page.evaluate(() => library.forget("it"));
    await answer(page, tokens(900));
    await kept(page, 1);
    expect(await page.evaluate(() => library.clearPages())).toBe(0);
    const cached = async () => (await page.evaluate(() => library.stats("it"))).pagesCached;
    await expect.poll(cached, { interval: 50, timeout: WAIT.timeout }).toBe(0);
    expect(await page.evaluate(() => library.clearPages())).toBe(0);
  });

  it("go when they are to be forgotten", async () => {
    await answer(page, tokens(300));
    await kept(page, 1);
    await page.evaluate(() => library.forget("it"));
    expect(await page.evaluate(() => library.stats("it"))).toMatchObject({
      pagesKept: 0,
      pagesKeptBytes: 0,
      pagesKeptLimit: 1 << 28,
    });
  });
});
