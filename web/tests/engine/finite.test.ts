/** Logits that are not finite end the request that has them, and no other. */

import { describe, expect, test } from "vitest";
import { expectedTokens, VOCAB } from "./expected.ts";
import { Random } from "./random.ts";
import { makeEngine, promptOf, request, textIn, tokensOf } from "./support.ts";

const ALL = { ignoreEos: true, maxTokens: 24 };
const random = new Random(36);

/** A prompt without a token. */
function without(token: number, length: number): number[] {
  return promptOf(random, length).map((one) => (one === token ? (one + 1) % VOCAB : one));
}

/** A prompt, how it goes on, and a token that comes at place `at` of the answer and not before. */
function spoiledAt(at: number) {
  for (;;) {
    const prompt = promptOf(random, 30);
    const answer = expectedTokens(prompt, request(prompt, ALL).params);
    const spoiler = answer[at];
    if (spoiler === undefined || answer.indexOf(spoiler) < at || prompt.includes(spoiler)) continue;
    return { prompt, answer, spoiler };
  }
}

const ERROR = {
  code: "engine.not_finite",
  message: expect.stringContaining("the keys of layer 0 are beyond what KV pages of float16 hold"),
  remedy: expect.stringContaining("--kv f32"),
};

describe("logits that are not finite", () => {
  test.each([0, 3, 15])("end a request after token %i of its answer", async (at) => {
    const { prompt, answer, spoiler } = spoiledAt(at);
    const { engine } = makeEngine({ pages: 64, spoiler });
    const running = engine.submit(request(prompt, { ...ALL, presencePenalty: 0 }));
    const text = textIn(running);
    await expect(running.completion).rejects.toMatchObject({
      ...ERROR,
      message: expect.stringContaining(`after token ${prompt.length + at + 1} are not finite`),
    });
    await expect(text).rejects.toMatchObject(ERROR);
    expect(engine.check()).toEqual([]);
    expect(answer.slice(0, at)).not.toContain(spoiler);
  });

  test("end a prompt that leads to them, and others go on beside it", async () => {
    const spoiler = 7;
    const { engine } = makeEngine({ pages: 64, spoiler });
    // What they draw may be that token, which ends them: those whose answers lack it are asked.
    const prompts: number[][] = [];
    while (prompts.length < 3) {
      const prompt = without(spoiler, 20 + prompts.length);
      if (!expectedTokens(prompt, request(prompt, ALL).params).includes(spoiler))
        prompts.push(prompt);
    }
    const others = prompts.map((prompt) => engine.submit(request(prompt, ALL)));
    const bad = engine.submit(request([...without(spoiler, 40), spoiler, 1, 2], ALL));
    await expect(bad.completion).rejects.toMatchObject(ERROR);
    for (const [nth, other] of others.entries()) {
      const prompt = prompts[nth] ?? [];
      expect(await tokensOf(other)).toEqual(expectedTokens(prompt, request(prompt, ALL).params));
    }
    expect(engine.check()).toEqual([]);
  });

  test("leave no page for prompts that begin alike", async () => {
    const spoiler = 7;
    const { engine } = makeEngine({ pages: 64, spoiler });
    const prompt = [...without(spoiler, 20), spoiler, ...without(spoiler, 30)];
    for (let i = 0; i < 2; i++) {
      await expect(engine.submit(request(prompt, ALL)).completion).rejects.toMatchObject(ERROR);
    }
    expect(engine.stats()).toMatchObject({ pagesCached: 0, prefixHitTokens: 0 });
    expect(engine.check()).toEqual([]);
  });

  test("take pages from who cancelled before anybody knew", async () => {
    const spoiler = 7;
    const { engine } = makeEngine({ pages: 64, spoiler, prefillChunk: 32 });
    const prompt = [...without(spoiler, 20), spoiler, ...without(spoiler, 60)];
    const cancelled = engine.submit(request(prompt, ALL));
    cancelled.cancel();
    await cancelled.completion;
    await expect(engine.submit(request(prompt, ALL)).completion).rejects.toMatchObject(ERROR);
    expect(engine.stats().pagesCached).toBe(0);
  });
});
