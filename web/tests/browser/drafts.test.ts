/** Guesses from the text itself, on a program whose decode agrees with its prefill. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const PROGRAM = "webgpu-f32-serial";
const TOKENS = 120;

let session: Session;
let page: Page;
const [prompt = []] = readExpected().prompts;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
  for (const [name, options] of [
    ["plain", {}],
    ["guessing", { draft: "lookup", trace: true }],
  ] as const) {
    const loaded = await page.evaluate(
      ([name, options]) => library.load(name, "/bundles/demo-q4/", options),
      [name, { program: PROGRAM, ...options }] as const,
    );
    expect(loaded).toHaveProperty("value");
  }
});
afterAll(() => session?.close());

/** What one engine answers, and what it has guessed so far. */
async function asked(name: string, options: Readonly<Record<string, unknown>>) {
  return page.evaluate(
    async ({ name, prompt, options }) => {
      const answers = await library.choices(name, prompt, { n: 1, ...options });
      const { draftTokens, draftAcceptedTokens } = await library.stats(name);
      const tokens = answers.map(({ tokenIds }) => tokenIds);
      return { tokens, draftTokens, draftAcceptedTokens };
    },
    { name, prompt: [...prompt, ...prompt, ...prompt], options },
  );
}

const RULES = { maxTokens: TOKENS, ignoreEos: true };
/** Two tokens that come before all others. */
const FEW = { logitBias: { 300: 1e4, 301: 1e4 } };

it.each([
  ["greedy", { ...RULES, temperature: 0 }],
  ["drawn", { ...RULES, temperature: 1, seed: 3 }],
  ["of two tokens", { ...RULES, ...FEW, temperature: 1, seed: 4 }],
  ["three at once", { ...RULES, ...FEW, temperature: 1, seed: 5, n: 3 }],
  ["with log-probabilities", { ...RULES, ...FEW, temperature: 0, logprobs: true, maxTokens: 24 }],
])("answers are the same with guesses as without: %s", async (_, options) => {
  const plain = await asked("plain", options);
  const guessed = await asked("guessing", options);
  expect(guessed.tokens).toEqual(plain.tokens);
  expect(plain.draftTokens).toBe(0);
});

it("guesses are right where a text repeats itself", async () => {
  const { draftTokens, draftAcceptedTokens } = await asked("guessing", {
    ...RULES,
    logitBias: { 300: 1e4 },
    temperature: 0,
  });
  expect(draftTokens).toBeGreaterThan(0);
  expect(draftAcceptedTokens).toBeGreaterThan(0);
});

it("what was counted and when it was done is told", async () => {
  const { metrics, trace } = await page.evaluate(async () => ({
    metrics: await library.metrics("guessing"),
    trace: await library.trace("guessing"),
  }));
  expect(metrics.request_success_total).toMatchObject({ error: 0 });
  expect(metrics.time_to_first_token_seconds).toHaveProperty("p50");
  expect(metrics.spec_decode_num_accepted_tokens_total).toBeGreaterThan(0);
  const names = trace.traceEvents.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["prefill", "decode", "verify", "request 0"]));
  const untold = page.evaluate(() => library.trace("plain"));
  await expect(untold).rejects.toThrow(/trace/);
});
