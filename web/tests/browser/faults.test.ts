import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { launch, type RunningBrowser } from "./launch.ts";
import type { Answer, Outcome } from "./pages/library.ts";
import { FULL, WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { loseDevice, takeCounts } from "./worker-patch.ts";

const DEMO = "/bundles/demo-q4/";
const TINY = "/bundles/tiny-q8/";
const SHARD = `${DEMO}params/gpu/00000.safetensors`;
const SERIAL = "webgpu-f32-serial";
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

/** Of bundle.json what is read here. */
interface Bundle {
  readonly programs: readonly {
    readonly id: string;
    readonly shaders: Readonly<Record<string, string>>;
  }[];
}

/** What a page is told when it comes to the front or goes to the back. */
async function show(page: Page, state: DocumentVisibilityState): Promise<void> {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, value: state });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
}

function textOf(answer: Outcome<Answer>): string {
  return "value" in answer ? answer.value.text : answer.error.message;
}

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
  /** Load the program that the engine chooses; what it is, and which shaders only some others have. */
  const loadAny = async () => {
    const loaded = await page.evaluate((url) => library.load("it", url, {}), TINY);
    if ("error" in loaded) throw new Error(loaded.error.message);
    const id = loaded.value.program;
    return { id, shaders: await shadersOf(id) };
  };
  /** Texts by which to tell shaders of a program, but for those that one other program has. */
  const shadersOf = async (id: string): Promise<readonly string[]> => {
    const response = await fetch(`${session.proxy.url}${TINY}bundle.json`);
    const { programs }: Bundle = await response.json();
    const kernels = (wanted: string) =>
      Object.keys(programs.find((one) => one.id === wanted)?.shaders ?? {});
    const spared = new Set(kernels(id === SERIAL ? "webgpu-f32" : SERIAL));
    const own = kernels(id).filter((kernel) => !spared.has(kernel));
    return own.map((kernel) => `fn ${kernel}_kernel(`);
  };
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

    it("in every run is given less to do, then another program, and at last up", async () => {
      const { id, shaders } = await loadAny();
      await page.evaluate(() => library.close("it"));
      await loadAny(); // the choice is known by now
      const { submits } = await takeCounts(page);
      await page.close();
      page = await session.library({ lost: { shaders, after: submits } });
      expect(await loadAny()).toMatchObject({ id });
      expect(await generate()).toHaveProperty("value");
      const { deviceLosses } = await page.evaluate(() => library.stats("it"));
      expect(deviceLosses).toBeGreaterThanOrEqual(3);
      expect(await page.evaluate(() => library.heard)).toContain("device.gentle");
      await page.evaluate(() => library.close("it"));

      const asked = { program: id };
      await page.evaluate(([url, asked]) => library.load("it", url, asked), [TINY, asked] as const);
      const message = expect.stringContaining("lost 3 times and nothing came of it");
      expect(await generate()).toMatchObject({ error: { code: "device.lost", message } });
      expect(await page.evaluate(() => library.heard)).toContain("failed");
      expect(await generate()).toMatchObject({ error: { code: "device.lost" } });
    });

    it("while nobody sees the page is asked for again when somebody does", async () => {
      await load(TINY);
      const undisturbed = await generate();
      await show(page, "hidden");
      session.proxy.fetched.length = 0;
      await loseDevice(page, 1);
      const generating = generate();
      const heard = () => page.evaluate(() => library.heard.at(-1));
      await expect.poll(heard, WAIT).toBe("recovering");
      await page.evaluate(() => library.stats("it")); // the worker has had time for more
      expect(session.proxy.fetched).toEqual([]);
      expect(await heard()).toBe("recovering");
      await show(page, "visible");
      expect(textOf(await generating)).toBe(textOf(undisturbed));
      expect(await heard()).toBe("ready");
    });

    it("because it never answers comes back as well", async () => {
      await load(TINY);
      const { submits } = await takeCounts(page); // what loading takes
      const undisturbed = await generate();
      await page.close();
      page = await session.library({ hang: submits + 2 });
      await load(TINY);
      expect(textOf(await generate())).toBe(textOf(undisturbed));
      expect(await page.evaluate(() => library.stats("it"))).toMatchObject({ deviceLosses: 1 });
    });
  });

  describe("a shader that computes something else", () => {
    it("is found out, and another program taken, also the next time", async () => {
      const { id, shaders } = await loadAny();
      await page.close();
      page = await session.library({ wrong: shaders });
      const other = await loadAny();
      expect(other.id).not.toBe(id);
      const found = await page.evaluate(() => library.heard);
      expect(found).toContain("device.output");
      expect(await generate()).toHaveProperty("value");
      await page.evaluate(() => library.close("it"));
      expect(await loadAny()).toMatchObject({ id: other.id });
      expect(await page.evaluate(() => library.heard)).toEqual(found);
    });

    it("in the only program that may be used is an error", async () => {
      page = await session.library({ wrong: await shadersOf(program) });
      const message = expect.stringMatching(/runs no program .* its logits are off by/);
      expect(await load(TINY)).toMatchObject({ error: { code: "device.output", message } });
    });
  });
});
