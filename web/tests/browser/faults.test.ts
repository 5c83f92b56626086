import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { launch, type RunningBrowser } from "./launch.ts";
import type { Answer } from "./pages/library.ts";
import { FULL, WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { loseDevice } from "./worker-patch.ts";

const DEMO = "/bundles/demo-q4/";
const TINY = "/bundles/tiny-q8/";
const SHARD = `${DEMO}params/gpu/00000.safetensors`;
const GREEDY = { maxTokens: 24, temperature: 0, ignoreEos: true };

/**
 * Each adapter with a program that it runs: all kernels are compiled at every load. What is lost and
 * broken here is the same on either, so the quick suite takes the quicker one.
 */
const EVERY = [
  { adapter: "lavapipe", program: "webgpu-f16-subgroups" },
  { adapter: "swiftshader", program: "webgpu-f32-serial" },
] as const;
const CASES = FULL ? EVERY : EVERY.slice(0, 1);

describe.each(CASES)("on $adapter,", ({ adapter, program }) => {
  let browser: RunningBrowser;
  let session: Session;
  let page: Page;

  beforeAll(async () => {
    browser = await launch(adapter);
  });
  afterAll(() => browser?.close());
  beforeEach(async () => {
    session = await openSession(browser); // an origin without any storage yet
    page = await session.library();
  });
  afterEach(() => session?.close());

  const load = (url: string) =>
    page.evaluate(({ url, program }) => library.load("it", url, { program }), { url, program });
  const generate = () =>
    page.evaluate((options) => library.generate("it", "Once upon a time", options), GREEDY);
  const shardFetches = () => session.proxy.fetched.filter(({ path }) => path === SHARD);

  describe("a download", () => {
    it("that breaks off is an error, and goes on where it was when the model is loaded again", async () => {
      session.proxy.fault = (path) => (path === SHARD ? { kind: "cut", after: 300_000 } : null);
      expect(await load(DEMO)).toMatchObject({ error: { code: "store.network" } });
      session.proxy.fault = () => null;
      session.proxy.fetched.length = 0;
      expect(await load(DEMO)).toHaveProperty("value");
      const [resumed, ...others] = shardFetches();
      expect(resumed?.range).toMatch(/^bytes=[1-9]\d*-/);
      expect(resumed?.status).toBe(206);
      expect(others).toEqual([]);
    });

    it("with one wrong bit is refused, and another try fetches it anew", async () => {
      session.proxy.fault = (path) => (path === SHARD ? { kind: "flip", at: 100_000 } : null);
      expect(await load(DEMO)).toMatchObject({ error: { code: "bundle.checksum" } });
      session.proxy.fault = () => null;
      expect(await load(DEMO)).toHaveProperty("value");
      expect(await generate()).toHaveProperty("value");
    });

    it("for which storage has no room runs all the same, with a warning", async () => {
      const devtools = await session.browser.context.newCDPSession(page);
      const origin = session.proxy.url;
      await devtools.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 150_000 });
      expect(await load(TINY)).toMatchObject({ value: { name: "tiny-q8" } });
      expect(await page.evaluate(() => library.heard)).toContain("store.full");
      expect(await generate()).toHaveProperty("value");
    });

    it("is not needed a second time", async () => {
      expect(await load(TINY)).toHaveProperty("value");
      await page.evaluate(() => library.close("it"));
      session.proxy.fetched.length = 0;
      expect(await load(TINY)).toHaveProperty("value");
      const paths = session.proxy.fetched.map(({ path }) => path);
      expect(paths.filter((path) => path !== `${TINY}bundle.json`)).toEqual([]);
    });
  });

  describe("a device that is lost", () => {
    it("while weights are on their way is asked for again", async () => {
      let release = () => {};
      const until = new Promise<void>((resolve) => {
        release = resolve;
      });
      session.proxy.fault = (path) => (path === SHARD ? { kind: "wait", until } : null);
      const loading = load(DEMO);
      await expect.poll(() => shardFetches().length, WAIT).toBe(1);
      await loseDevice(page);
      session.proxy.fault = () => null;
      release();
      expect(await loading).toHaveProperty("value");
      expect(await generate()).toHaveProperty("value");
    });

    it.each([
      ["while a prompt is read", 1],
      ["while an answer is written", 5],
    ])("%s comes back, and the answer is the same", async (_, submits) => {
      await load(DEMO);
      const undisturbed = await generate();
      await page.evaluate(() => library.close("it"));
      await load(DEMO); // without the pages of the first answer
      await loseDevice(page, submits);
      const { value } = undisturbed as { readonly value: Answer };
      const { tokenIds, text, finishReason } = value;
      expect(await generate()).toMatchObject({ value: { tokenIds, text, finishReason } });
      expect(await page.evaluate(() => library.heard)).toEqual(
        expect.arrayContaining(["recovering", "ready"]),
      );
      expect(await page.evaluate(() => library.stats("it"))).toMatchObject({ deviceLosses: 1 });
    });
  });
});
