/** Prompts whose beginning is in pages already: read once, and the tokens are the same. */

import { describe, expect, test } from "vitest";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { makeEngine, promptOf, request, tokensOf, turn } from "./support.ts";

const random = new Random(22);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };

describe("a prompt known in part", () => {
  test("is not read again, and gives the same tokens", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const first = await engine.submit(request(PROMPT, { maxTokens: 20, ...ALL })).completion;
    const prompt = [...PROMPT, ...first.tokenIds, 5, 6, 7];
    const again = request(prompt, { maxTokens: 20, ...ALL });
    const before = program.runs.length;
    const { tokenIds, usage } = await engine.submit(again).completion;
    expect(tokenIds).toEqual(expectedTokens(prompt, again.params));
    expect(usage.cachedTokens).toBe(48);
    expect(program.runs[before]?.rows).toBe(prompt.length - 48);
    expect(engine.stats()).toMatchObject({ prefixHitTokens: 48, prefixQueriedTokens: 37 + 60 });
  });

  test("has its last token read always", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const prompt = promptOf(random, 32);
    const asked = request(prompt, { maxTokens: 3, ...ALL });
    const first = await engine.submit(asked).completion;
    const second = await engine.submit(asked).completion;
    expect(second.tokenIds).toEqual(first.tokenIds);
    expect(second.usage.cachedTokens).toBe(16);
  });

  test("is not known to another engine, whatever its model is called", async () => {
    const asked = request(PROMPT, { maxTokens: 3, ...ALL });
    for (const { engine } of [makeEngine({ pages: 64 }), makeEngine({ pages: 64 })]) {
      expect((await engine.submit(asked).completion).usage.cachedTokens).toBe(0);
      expect((await engine.submit(asked).completion).usage.cachedTokens).toBe(32);
    }
  });

  test("gives up pages that others need", async () => {
    const { engine } = makeEngine({ pages: 8, context: 128 });
    for (let i = 0; i < 12; i++) {
      const prompt = promptOf(random, 40 + i);
      const asked = request(prompt, { maxTokens: 60, ...ALL });
      expect(await tokensOf(engine.submit(asked))).toEqual(
        expectedTokens(prompt, asked.params, 128),
      );
      expect(engine.check()).toEqual([]);
    }
    expect(engine.stats().pagesCached).toBeGreaterThan(0);
  });

  test("may be that of a generation that was cancelled", async () => {
    const { engine } = makeEngine({ pages: 64, arrive: turn });
    const running = engine.submit(request(PROMPT, { maxTokens: 100, ...ALL }));
    for await (const piece of running.pieces) if (piece.length > 1) break;
    const { finishReason, usage } = await running.completion;
    expect(finishReason).toBe("cancelled");
    expect(usage.completionTokens).toBeLessThan(100);
    await turn();
    const asked = request(PROMPT, { maxTokens: 100, ...ALL });
    const again = await engine.submit(asked).completion;
    expect(again.usage.cachedTokens).toBe(32);
    expect(again.tokenIds).toEqual(expectedTokens(PROMPT, asked.params));
  });
});

describe("an answer that the limit cut off", () => {
  const options = { temperature: 1, seed: 5, frequencyPenalty: 0.5, ...ALL };

  test("goes on as if it had not been, and only the end of it is read", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const first = request(PROMPT, { maxTokens: 30, ...options });
    const { tokenIds: begun } = await engine.submit(first).completion;
    const before = program.runs.length;
    const rest = request([...PROMPT, ...begun], { maxTokens: 20, ...options });
    const { tokenIds, usage } = await engine.submit({ ...rest, begun: begun.length }).completion;
    const whole = request(PROMPT, { maxTokens: 50, ...options });
    expect(tokenIds).toEqual(expectedTokens(PROMPT, whole.params));
    expect(usage).toMatchObject({ promptTokens: 67, cachedTokens: 64, completionTokens: 20 });
    expect(program.runs[before]).toMatchObject({
      plans: ["embed", "prefill.16", "logits"],
      rows: 3,
    });
  });
});
