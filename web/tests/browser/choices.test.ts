/** How likely tokens were and several answers to one prompt, with the demo model. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const TOKENS = 8;
const TOP = 5;
/** As docs/testing.md has it of log-probabilities: twice what a logit may be off. */
const NEAR = 2e-3;

let session: Session;
let page: Page;
const { prompts, likely } = readExpected();

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
  const loaded = await page.evaluate(() =>
    library.load("demo", "/bundles/demo-q4/", { program: "webgpu-f32" }),
  );
  expect(loaded).toHaveProperty("value");
});
afterAll(() => session?.close());

it.each([0, 1, 2])("tokens are as likely as Python's engine says: prompt %i", async (at) => {
  const prompt = prompts[at] ?? [];
  const options = { maxTokens: TOKENS, temperature: 0, ignoreEos: true };
  const ask = { prompt, options, top: TOP };
  const { plain, told } = await page.evaluate(async ({ prompt, options, top }) => {
    const plain = await library.choices("demo", prompt, { ...options, n: 1 });
    const told = await library.choices("demo", prompt, {
      ...options,
      n: 1,
      logprobs: true,
      topLogprobs: top,
    });
    return { plain: plain[0], told: told[0] };
  }, ask);
  const python = likely[at] ?? [];
  expect(told?.tokenIds).toEqual(plain?.tokenIds);
  expect(told?.tokenIds).toEqual(python.map(({ token_id }) => token_id));
  expect(plain?.logprobs).toBeUndefined();
  expect(told?.logprobs).toHaveLength(TOKENS);
  for (const [i, one] of (told?.logprobs ?? []).entries()) {
    expect(Math.abs(one.logprob - (python[i]?.logprob ?? 0))).toBeLessThan(NEAR);
    expect(one.top[0]).toEqual({ ...one, top: undefined });
    const values = new Map(python[i]?.top.map(({ token_id, logprob }) => [token_id, logprob]));
    expect(one.top).toHaveLength(TOP);
    for (const { tokenId, logprob } of one.top) {
      const theirs = values.get(tokenId);
      if (theirs !== undefined) expect(Math.abs(logprob - theirs)).toBeLessThan(NEAR);
    }
    expect(one.top.filter(({ tokenId }) => values.has(tokenId)).length).toBeGreaterThan(TOP - 2);
  }
  const bytes = told?.logprobs?.flatMap((one) => one.bytes) ?? [];
  const spelled = new TextDecoder().decode(Uint8Array.from(bytes));
  expect(spelled.replaceAll("<|im_end|>", "")).toBe(told?.text); // end tokens have no text
});

it("choices share their prompt, differ, and the first is what one alone would be", async () => {
  const prompt = [...(prompts[0] ?? []), ...(prompts[1] ?? []), ...(prompts[2] ?? [])];
  const options = { maxTokens: 12, temperature: 4, seed: 5, ignoreEos: true };
  const { alone, choices } = await page.evaluate(
    async ({ prompt, options }) => ({
      choices: await library.choices("demo", prompt, { ...options, n: 4 }),
      alone: await library.choices("demo", prompt, { ...options, n: 1 }),
    }),
    { prompt, options },
  );
  expect(new Set(choices.map(({ tokenIds }) => String(tokenIds))).size).toBe(4);
  expect(choices[0]?.tokenIds).toEqual(alone[0]?.tokenIds);
  const full = 16 * Math.floor((prompt.length - 1) / 16);
  const cached = choices.map(({ usage }) => usage.cachedTokens);
  expect(cached.slice(1)).toEqual([full, full, full]);
  expect(cached[0]).toBeLessThan(full);
});

it("pages ask for both in OpenAI's words", async () => {
  const told = await page.evaluate(() => library.asOpenAI("demo", "Hello", 2));
  for (const [index, choice] of told.whole.entries()) {
    expect(choice.index).toBe(index);
    const tokens = choice.logprobs?.content ?? [];
    expect(tokens.map(({ token }) => token).join("")).toBe(told.streamed[index]?.tokens);
    expect(choice.message.content).toBe(told.streamed[index]?.text);
    expect(tokens.every(({ top_logprobs }) => top_logprobs.length === 2)).toBe(true);
  }
  expect(told.whole).toHaveLength(2);
});
