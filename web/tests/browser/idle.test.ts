/** Conversations that nobody goes on with: their memory is given back by the GPU, and what they said is not computed again. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { takeCounts } from "./worker-patch.ts";

const PAGE_TOKENS = 16;
/** Three prompts that a small machine's first pages do not hold together. */
const PROMPTS = [1, 2, 3].map((seed) =>
  Array.from({ length: 690 }, (_, i) => 100 + ((seed * 7 + i * i) % 900)),
);
const WHOLE = PAGE_TOKENS * Math.floor((690 - 1) / PAGE_TOKENS);

let session: Session;
let page: Page;
let cold: Awaited<ReturnType<typeof answers>>;
/** What there is on the device before anything is asked. */
let first: { readonly pages: number; readonly bytes: number };

const stats = () => page.evaluate(() => library.stats("it"));

/** What it says to all prompts at once, or to one. */
async function answers(prompts: readonly (readonly number[])[]) {
  const found = await page.evaluate(
    (prompts) =>
      Promise.all(
        prompts.map((prompt) =>
          library.generate("it", prompt, { maxTokens: 100, temperature: 0, ignoreEos: true }),
        ),
      ),
    prompts,
  );
  const values = found.map((one) => {
    if ("error" in one) throw new Error(one.error.message);
    return one.value;
  });
  return {
    tokens: values.map(({ tokenIds }) => tokenIds),
    cached: values.map(({ cachedTokens }) => cachedTokens),
  };
}

const state = () => library.info("it").memory.state;

async function show(state: "hidden" | "visible"): Promise<void> {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
}

/** Wait until nothing of conversations is on the device. */
async function emptied(): Promise<void> {
  const cached = async () => (await stats()).pagesCached;
  await expect.poll(cached, { interval: 50, timeout: WAIT.timeout }).toBe(0);
  const now = async () => (await stats()).bytes;
  await expect.poll(now, { interval: 50, timeout: WAIT.timeout }).toBe(first.bytes);
}

async function load(spillAfterMs: number | null): Promise<void> {
  const options = { keepPages: 1 << 28, maxBurst: 1, spillAfterMs };
  const loaded = await page.evaluate(
    (options) => library.load("it", "/bundles/demo-q4/", options),
    options,
  );
  expect(loaded).toHaveProperty("value");
}

beforeAll(async () => {
  session = await openSession("swiftshader");
  page = await session.page({ limits: { maxBufferSize: 512 << 20 } }); // a small machine
  await page.goto(`${session.proxy.url}/test/library.html`);
  await page.waitForFunction(() => "library" in globalThis);
  await load(2 ** 31 - 1);
  const { pages, bytes } = await stats();
  first = { pages, bytes };
  cold = await answers(PROMPTS);
});
afterAll(() => session?.close());

it("give back what they came to need once nobody sees the page of a small machine", async () => {
  // What a page is read into is made for the first, and kept: it is there then.
  const left = () =>
    stats().then(({ pagesCached, pagesSaved }) => pagesSaved > 0 && pagesCached - pagesSaved);
  await expect.poll(left, { interval: 50, timeout: WAIT.timeout }).toBe(0);
  const grown = await stats();
  const { live: held } = await takeCounts(page);
  expect(grown.pages).toBeGreaterThan(first.pages);
  expect([grown.shrinks, grown.pagesSpilled]).toEqual([0, 0]);
  await show("hidden");
  const shrinks = async () => (await stats()).shrinks;
  await expect.poll(shrinks, { interval: 50, timeout: WAIT.timeout }).toBe(1);
  await emptied();
  const { pages, pagesFree, bytes, pagesSpilled, pagesFailure } = await stats();
  expect([pages, pagesFree]).toEqual([first.pages, first.pages]);
  expect([pagesSpilled, pagesFailure]).toEqual([grown.pagesCached, null]);
  // What the engine counts is what the browser's device has.
  const { live } = await takeCounts(page);
  expect(held.bytes - live.bytes).toBe(grown.bytes - bytes);
  expect(live.buffers).toBe(held.buffers);
  expect(held.bytes - live.bytes).toBeGreaterThan(0.3 * (await page.evaluate(state)));
});

it("are gone on with from storage: the same tokens, and nothing of what was read is computed", async () => {
  await show("visible");
  for (const [nth, prompt] of PROMPTS.entries()) {
    const again = await answers([prompt]);
    expect([again.tokens, again.cached]).toEqual([[cold.tokens[nth]], [WHOLE]]);
  }
  const { pagesRestored, prefixHitTokens } = await stats();
  expect([pagesRestored * PAGE_TOKENS, prefixHitTokens]).toEqual([3 * WHOLE, 3 * WHOLE]);
});

it("are let go of after each answer where that is wanted, and asked in the middle of it all is well", async () => {
  await page.evaluate(() => library.close("it"));
  await load(0);
  const [prompt = []] = PROMPTS;
  for (let round = 0; round < 4; round++) {
    const said = await answers([prompt]);
    expect([said.tokens, said.cached]).toEqual([cold.tokens.slice(0, 1), [WHOLE]]);
  }
  await emptied();
  expect((await stats()).pages).toBe(first.pages);
});

it("stay where they are with a setting that says so", async () => {
  await page.evaluate(() => library.close("it"));
  await load(null);
  const [prompt = []] = PROMPTS;
  await answers([prompt]);
  await show("hidden");
  const { pagesCached } = await stats();
  const said = await answers([prompt]);
  expect(said.cached).toEqual([WHOLE]);
  expect((await stats()).pagesCached).toBe(pagesCached);
  expect((await stats()).pagesSpilled).toBe(0);
});

it("refuses a time that is none", async () => {
  const refused = await page.evaluate(() =>
    library.load("other", "/bundles/demo-q4/", { keepPages: 1 << 20, spillAfterMs: -1 }),
  );
  expect(refused).toMatchObject({ error: { code: "input.spill" } });
});
