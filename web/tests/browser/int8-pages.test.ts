/** KV pages in int8: what they make a tab say, and at rest. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { asking, compare, drawnTwice } from "./comparing.ts";
import { CODES, readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "tiny-mixed-kv8";
const PROGRAM = "webgpu-f32-kv8";
const PAGE_TOKENS = 16;
/** What a file of a page has before the page (docs/prefix-packs.md). */
const MOST_HEAD = 256;

let session: Session;
let page: Page;
const { prompts, programs } = readExpected().coded;

async function open(): Promise<Page> {
  const made = await session.library();
  const loaded = await made.evaluate(
    ({ bundle, program }) =>
      library.load("coded", `/bundles/${bundle}/`, { program, keepPages: 1 << 26 }),
    { bundle: BUNDLE, program: PROGRAM },
  );
  expect(loaded).toMatchObject({ value: { program: PROGRAM } });
  return made;
}

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await open();
});
afterAll(() => session?.close());

it("say what Python's engine says on the same adapter, but for near ties", async () => {
  const python = programs[PROGRAM];
  if (!python) throw new Error(`nothing expected of ${PROGRAM}`);
  const compared = await compare(asking(page, "coded"), prompts, python, CODES);
  expect(compared.wrong).toEqual([]);
  expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
});

it("draw with seeds, bursts as steps one by one, alone as beside others", async () => {
  const drawn = await drawnTwice(page, "coded", prompts);
  expect(drawn.alone).toEqual(drawn.together);
});

it("come back as they were, half as large as in float16", async () => {
  const prompt = Array.from({ length: 200 }, (_, at) => 10 + ((at * 37) % 290));
  const pages = Math.floor((prompt.length - 1) / PAGE_TOKENS);
  const ask = (where: Page) =>
    where.evaluate(async (prompt) => {
      const options = { maxTokens: 12, temperature: 0, ignoreEos: true };
      const likely = { logprobs: true, topLogprobs: 20, n: 1 };
      const [one] = await library.choices("coded", prompt, { ...options, ...likely });
      return one;
    }, prompt);
  await page.evaluate(() => library.forget("coded"));
  const cold = await ask(page);
  expect(cold?.usage.cachedTokens).toBe(0);
  const kept = () => page.evaluate(async () => (await library.stats("coded")).pagesKept);
  await expect.poll(kept, { interval: 50, timeout: WAIT.timeout }).toBeGreaterThanOrEqual(pages);
  const { pagesKept, pagesKeptBytes } = await page.evaluate(() => library.stats("coded"));
  const each = pagesKeptBytes / pagesKept;
  const { state_groups } = JSON.parse(
    readFileSync(join(inject("bundles"), BUNDLE, "bundle.json"), "utf8"),
  );
  const [{ layers, kv_heads, head_dim }] = state_groups;
  const halves = layers.length * 2 * kv_heads * head_dim * PAGE_TOKENS * 2;
  expect(each).toBeGreaterThan(halves / 2);
  expect(each).toBeLessThan(0.55 * halves + MOST_HEAD);
  const again = await open();
  const restored = await ask(again);
  expect(await again.evaluate(() => library.stats("coded"))).toMatchObject({
    pagesRestored: pages,
  });
  expect(restored?.usage.cachedTokens).toBe(pages * PAGE_TOKENS);
  expect([restored?.tokenIds, restored?.logprobs]).toEqual([cold?.tokenIds, cold?.logprobs]);
});
