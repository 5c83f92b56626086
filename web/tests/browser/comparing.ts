/** Greedy answers of a page's engine, compared with Python's token by token. */
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { type Bound, type Continuations, isNearTie } from "./expected.ts";
import type {} from "./pages/library.ts";

const AT_ONCE = 8;

/** The tokens that greedily follow a prompt. */
export type Say = (prompt: readonly number[], maxTokens: number) => Promise<readonly number[]>;

/** Asks a page, but nothing twice: two programs of Python's mostly say the same. */
export function asking(page: Page, name: string): Say {
  const said = new Map<string, Promise<readonly number[]>>();
  const ask: Say = async (prompt, maxTokens) => {
    const answer = await page.evaluate(
      ({ name, prompt, maxTokens }) =>
        library.generate(name, prompt, { maxTokens, temperature: 0, ignoreEos: true }),
      { name, prompt, maxTokens },
    );
    if ("error" in answer) throw new Error(answer.error.message);
    expect(answer.value.tokenIds).toHaveLength(maxTokens);
    return answer.value.tokenIds;
  };
  return (prompt, maxTokens) => {
    const key = [maxTokens, ...prompt].join(" ");
    const answer = said.get(key) ?? ask(prompt, maxTokens);
    said.set(key, answer);
    return answer;
  };
}

interface Compared {
  tokens: number;
  equal: number;
  /** Where another token was chosen although Python's led clearly. */
  readonly wrong: string[];
}

/**
 * Generate after every prompt and compare token by token. Where a near tie went the other way, go on
 * from Python's tokens, so that all of them are compared.
 */
export async function compare(
  say: Say,
  prompts: readonly (readonly number[])[],
  python: Continuations,
  bound: Bound,
): Promise<Compared> {
  const compared: Compared = { tokens: 0, equal: 0, wrong: [] };
  const one = async (index: number): Promise<void> => {
    const tokens = python.tokens[index] ?? [];
    for (let at = 0; at < tokens.length; ) {
      const prompt = [...(prompts[index] ?? []), ...tokens.slice(0, at)];
      const found = await say(prompt, tokens.length - at);
      let same = 0;
      while (same < found.length && found[same] === tokens[at + same]) same += 1;
      compared.equal += same;
      at += same;
      if (at < tokens.length) {
        if (!isNearTie(python, index, at, bound))
          compared.wrong.push(`prompt ${index}, token ${at}`);
        at += 1;
      }
    }
    compared.tokens += tokens.length;
  };
  const waiting = prompts.keys();
  const worker = async () => {
    for (const index of waiting) await one(index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return compared;
}

/** What is drawn by seeds after each prompt: of all together, and of each alone in steps one by one. */
export function drawnTwice(page: Page, name: string, prompts: readonly (readonly number[])[]) {
  return page.evaluate(
    async ({ name, prompts }) => {
      const options = { maxTokens: 24, temperature: 0.9, seed: 3, ignoreEos: true, n: 1 };
      const ask = async (prompt: readonly number[], logprobs: boolean) => {
        const [one] = await library.choices(name, prompt, { ...options, logprobs });
        return one?.tokenIds;
      };
      const together = await Promise.all(prompts.map((prompt) => ask(prompt, false)));
      const alone = [];
      for (const prompt of prompts) alone.push(await ask(prompt, true));
      return { together, alone };
    },
    { name, prompts },
  );
}
