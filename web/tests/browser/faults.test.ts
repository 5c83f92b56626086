import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { FULL } from "../suite.ts";
import type { Answer } from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { hangDevice, loseDevice, takeCounts } from "./worker-patch.ts";

const DEMO = "/bundles/demo-q4/";
const SHARD = `${DEMO}params/gpu/00000.safetensors`;
const SERIAL = "webgpu-f32-serial";
const GREEDY = { maxTokens: 24, temperature: 0, ignoreEos: true };

/**
 * Each adapter with a program that it runs: all kernels are compiled at every load. What is lost and
 * broken here is the same on either, so the landing suite takes the quicker one.
 */
const EVERY = [
  { adapter: "lavapipe", program: "webgpu-f16" },
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

describe.each(CASES)("on $adapter,", ({ adapter, program }) => {
  let session: Session;
  let page: Page;

  const load = () =>
    page.evaluate(([url, program]) => library.load("it", url, { program }), [
      DEMO,
      program,
    ] as const);
  const generate = () =>
    page.evaluate((options) => library.generate("it", "Once upon a time", options), GREEDY);
  const close = () => page.evaluate(() => library.close("it"));
  const heard = () => page.evaluate(() => library.heard);
  /** Load the program that the engine chooses: its id. */
  const loadAny = async () => {
    const loaded = await page.evaluate((url) => library.load("it", url, {}), DEMO);
    if ("error" in loaded) throw new Error(loaded.error.message);
    return loaded.value.program;
  };
  /** Texts by which to tell shaders of a program, but for those that one other program has. */
  const shadersOf = async (id: string): Promise<readonly string[]> => {
    const response = await fetch(`${session.proxy.url}${DEMO}bundle.json`);
    const { programs }: Bundle = await response.json();
    const kernels = (wanted: string) =>
      Object.keys(programs.find((one) => one.id === wanted)?.shaders ?? {});
    const spared = new Set(kernels(id === SERIAL ? "webgpu-f32" : SERIAL));
    const own = kernels(id).filter((kernel) => !spared.has(kernel));
    return own.map((kernel) => `fn ${kernel}_kernel(`);
  };
  const shardFetches = () => session.proxy.fetched.filter(({ path }) => path === SHARD);

  describe("a download", () => {
    beforeEach(async () => {
      session = await openSession(adapter); // an origin without any storage yet
      page = await session.library();
    });
    afterEach(() => session?.close());

    it("that breaks off is an error, goes on where it was, and is not needed again", async () => {
      const once = page.waitForFunction(() => library.fetched > 0, null, WAIT);
      session.proxy.fault = (path) =>
        path === SHARD ? { kind: "cut", after: 300_000, once } : null;
      expect(await load()).toMatchObject({ error: { code: "store.network" } });
      session.proxy.fault = () => null;
      session.proxy.fetched.length = 0;
      expect(await load()).toHaveProperty("value");
      const [resumed, ...others] = shardFetches();
      expect(resumed?.range).toMatch(/^bytes=[1-9]\d*-/);
      expect(resumed?.status).toBe(206);
      expect(others).toEqual([]);
      await close();
      session.proxy.fetched.length = 0;
      expect(await load()).toHaveProperty("value");
      const paths = session.proxy.fetched.map(({ path }) => path);
      expect(paths.filter((path) => path !== `${DEMO}bundle.json`)).toEqual([]);
    });

    it("with one wrong bit is refused, and another try fetches it anew", async () => {
      session.proxy.fault = (path) => (path === SHARD ? { kind: "flip", at: 100_000 } : null);
      expect(await load()).toMatchObject({ error: { code: "bundle.checksum" } });
      session.proxy.fault = () => null;
      expect(await load()).toHaveProperty("value");
      expect(await generate()).toHaveProperty("value");
    });

    it("for which storage has no room runs all the same, with a warning", async () => {
      const devtools = await session.browser.context.newCDPSession(page);
      const origin = session.proxy.url;
      await devtools.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 150_000 });
      expect(await load()).toMatchObject({ value: { name: "demo-q4" } });
      expect(await heard()).toContain("store.full");
      expect(await generate()).toHaveProperty("value");
    });
  });

  describe("a device that is lost", () => {
    /** What is said where nothing is lost. */
    let undisturbed: Answer;
    const losses = async () => (await page.evaluate(() => library.stats("it"))).deviceLosses;
    /** The answer is the same, by a device that has been lost once more. */
    const recovers = async (generating?: ReturnType<typeof generate>) => {
      const before = (await heard()).length; // before anything is generated that may lose it
      const { tokenIds, text, finishReason } = undisturbed;
      expect(await (generating ?? generate())).toMatchObject({
        value: { tokenIds, text, finishReason },
      });
      return { told: (await heard()).slice(before), losses: await losses() };
    };

    beforeAll(async () => {
      session = await openSession(adapter);
      page = await session.library();
    });
    afterAll(() => session?.close());

    it("while weights are on their way is asked for again", async () => {
      let release = () => {};
      const until = new Promise<void>((resolve) => {
        release = resolve;
      });
      session.proxy.fault = (path) => (path === SHARD ? { kind: "wait", until } : null);
      const loading = load();
      await expect.poll(() => shardFetches().length, WAIT).toBe(1);
      await loseDevice(page);
      session.proxy.fault = () => null;
      release();
      expect(await loading).toHaveProperty("value");
      const answer = await generate();
      if ("error" in answer) throw new Error(answer.error.message);
      undisturbed = answer.value;
      expect(await losses()).toBe(0); // of those since it was loaded
    });

    it.each([
      ["while a prompt is read", 1],
      ["while an answer is written", 5],
    ])("%s comes back, and the answer is the same", async (_, submits) => {
      const before = await losses();
      await loseDevice(page, submits);
      expect(await recovers()).toEqual({ told: ["recovering", "ready"], losses: before + 1 });
    });

    it("while nobody sees the page is asked for again when somebody does", async () => {
      const before = await losses();
      await show(page, "hidden");
      session.proxy.fetched.length = 0;
      await loseDevice(page, 1);
      const generating = generate();
      const last = async () => (await heard()).at(-1);
      await expect.poll(last, WAIT).toBe("recovering");
      await page.evaluate(() => library.stats("it")); // the worker has had time for more
      expect(session.proxy.fetched).toEqual([]);
      expect(await last()).toBe("recovering");
      await show(page, "visible");
      expect(await recovers(generating)).toEqual({ told: ["ready"], losses: before + 1 });
    });

    it("because it never answers comes back as well", async () => {
      const before = await losses();
      await hangDevice(page, 2);
      expect(await recovers()).toEqual({ told: ["recovering", "ready"], losses: before + 1 });
    });
  });

  describe("a program", () => {
    /** What the engine chooses, shaders by which to tell it, and what loading it submits. */
    let id: string;
    let shaders: readonly string[];
    let submits: number;

    beforeAll(async () => {
      session = await openSession(adapter);
      page = await session.library();
      id = await loadAny();
      shaders = await shadersOf(id);
      await close();
      await loadAny(); // the choice is known by now
      const counts = await takeCounts(page);
      submits = counts.submits - counts.nudges;
    });
    afterAll(() => session?.close());
    beforeEach(() => page.close());

    it("with which the device is lost in every run has less to do, then another is taken, and at last none", async () => {
      page = await session.library({ lost: { shaders, after: submits } });
      expect(await loadAny()).toBe(id);
      expect(await generate()).toHaveProperty("value");
      expect((await page.evaluate(() => library.stats("it"))).deviceLosses).toBeGreaterThanOrEqual(
        3,
      );
      expect(await heard()).toContain("device.gentle");
      expect((await page.evaluate(() => library.info("it"))).program).not.toBe(id);
      await close();

      const asked = { program: id };
      await page.evaluate(([url, asked]) => library.load("it", url, asked), [DEMO, asked] as const);
      const message = expect.stringContaining("lost 3 times and nothing came of it");
      expect(await generate()).toMatchObject({ error: { code: "device.lost", message } });
      expect(await heard()).toContain("failed");
      expect(await generate()).toMatchObject({ error: { code: "device.lost" } });
    });

    it("that computes something else is found out, and another taken, also the next time", async () => {
      page = await session.library({ wrong: shaders });
      const other = await loadAny();
      expect(other).not.toBe(id);
      const found = await heard();
      expect(found).toContain("device.output");
      expect(await generate()).toHaveProperty("value");
      await close();
      expect(await loadAny()).toBe(other);
      expect(await heard()).toEqual(found);
    });

    it("that computes something else, and is the only one that may be used, is an error", async () => {
      page = await session.library({ wrong: await shadersOf(program) });
      const message = expect.stringMatching(/runs no program .* its logits are off by/);
      expect(await load()).toMatchObject({ error: { code: "device.output", message } });
    });
  });
});
