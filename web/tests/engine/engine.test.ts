/** The generation loop: right tokens, whatever else runs; nothing lost, nothing left waiting. */

import { describe, expect, test } from "vitest";
import type { Running } from "../../engine/engine.ts";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { makeEngine, promptOf, request, textIn, textOf, tokensOf, turn } from "./support.ts";

const random = new Random(20);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };

describe("one request", () => {
  test("gives the tokens of the model, as text and as ids", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, { maxTokens: 50, ...ALL });
    const running = engine.submit(asked);
    const text = await textIn(running);
    const completion = await running.completion;
    expect(completion.tokenIds).toEqual(expectedTokens(PROMPT, asked.params));
    expect(text).toBe(completion.text);
    expect(text).toBe(textOf(completion.tokenIds));
    expect(completion.finishReason).toBe("length");
    expect(completion.usage).toEqual({
      promptTokens: 37,
      cachedTokens: 0,
      completionTokens: 50,
      totalTokens: 87,
    });
    expect(engine.check()).toEqual([]);
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0 });
  });

  test("ends at an end token, which has no text", async () => {
    const { engine } = makeEngine({ pages: 64 });
    for (let i = 0; i < 5; i++) {
      const prompt = promptOf(random, 5 + i);
      const asked = request(prompt, { maxTokens: 200 });
      const { tokenIds, finishReason, text } = await engine.submit(asked).completion;
      expect(tokenIds).toEqual(expectedTokens(prompt, asked.params));
      if (finishReason === "stop") expect(text).toBe(textOf(tokenIds.slice(0, -1)));
    }
  });

  test("of no tokens reads its prompt, which others find", async () => {
    const { engine, program } = makeEngine({ pages: 64, context: 48 });
    const whole = promptOf(random, 48);
    for (const prompt of [PROMPT, whole]) {
      const { tokenIds, text, finishReason, contextFull, usage } = await engine.submit(
        request(prompt, { maxTokens: 0 }),
      ).completion;
      expect([tokenIds, text, finishReason, contextFull]).toEqual([[], "", "length", false]);
      expect(usage).toMatchObject({ promptTokens: prompt.length, completionTokens: 0 });
    }
    expect(program.runs.flatMap(({ plans }) => plans)).not.toContain("sample");
    expect(engine.check()).toEqual([]);
    const asked = request(PROMPT, { maxTokens: 9, ...ALL });
    const { tokenIds, usage } = await engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(PROMPT, asked.params));
    expect(usage.cachedTokens).toBeGreaterThanOrEqual(32);
  });

  test.each([1, 2, 7, 30])("of %i tokens at least does not end before", async (minTokens) => {
    const { engine } = makeEngine({ pages: 64 });
    for (let i = 0; i < 5; i++) {
      const prompt = promptOf(random, 5 + i);
      const asked = request(prompt, { maxTokens: 100, minTokens, stopTokenIds: [i, 40 + i] });
      const { tokenIds } = await engine.submit(asked).completion;
      expect(tokenIds).toEqual(expectedTokens(prompt, asked.params));
      expect(tokenIds.length).toBeGreaterThanOrEqual(minTokens);
    }
    expect(engine.check()).toEqual([]);
  });

  test.each([1, 2, 3, 9, 16, 17])("of %i tokens gives no more", async (maxTokens) => {
    const { engine, program } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, { maxTokens, ...ALL });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(PROMPT, asked.params));
    const steps = program.runs.filter((run) => run.plans[0]?.startsWith("decode"));
    expect(steps.reduce((sum, run) => sum + run.k, 0)).toBe(maxTokens - 1);
  });

  test("ends where the context does", async () => {
    const { engine } = makeEngine({ pages: 64, context: 48 });
    const asked = request(PROMPT, { maxTokens: 50, ...ALL });
    const { tokenIds, finishReason } = await engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(PROMPT, asked.params, 48));
    expect([tokenIds.length, finishReason]).toEqual([11, "length"]);
  });

  test("ends before a stop string and at a stop token", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const all = expectedTokens(PROMPT, request(PROMPT, { maxTokens: 20, ...ALL }).params);
    const stop = textOf(all.slice(9, 11));
    const byText = await engine.submit(request(PROMPT, { stop, ...ALL })).completion;
    expect([byText.text, byText.finishReason]).toEqual([textOf(all.slice(0, 9)), "stop"]);
    expect(byText.usage.completionTokens).toBe(11);
    expect(program.runs.map((run) => run.k)).toContain(8);
    const stopTokenIds = [all[5] ?? 0];
    const byToken = await engine.submit(request(PROMPT, { stopTokenIds, ...ALL })).completion;
    expect(byToken.tokenIds).toEqual(all.slice(0, all.indexOf(stopTokenIds[0] ?? 0) + 1));
    expect(engine.check()).toEqual([]);
  });

  test("keeps its seed, all 64 bits of it, and draws one where there is none", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const seed = 0xfedc_ba98_7654_3210n;
    const asked = request(PROMPT, { seed, temperature: 1, maxTokens: 20 });
    const completion = await engine.submit(asked).completion;
    expect(completion.seed).toBe(String(seed));
    expect(completion.tokenIds).toEqual(expectedTokens(PROMPT, asked.params));
    const drawn = await engine.submit(request(PROMPT, { temperature: 1 })).completion;
    const again = request(PROMPT, { temperature: 1, seed: BigInt(drawn.seed) });
    expect((await engine.submit(again).completion).tokenIds).toEqual(drawn.tokenIds);
  });

  test("has its penalties and biases", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, {
      frequencyPenalty: 0.5,
      logitBias: { 3: -1.5, 60: 2 },
      maxTokens: 40,
      ...ALL,
    });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(PROMPT, asked.params));
  });
});

describe("many requests", () => {
  const asked = Array.from({ length: 9 }, (_, i) =>
    request(promptOf(random, 3 + 17 * (i % 4)), { maxTokens: 5 + 7 * i, ...ALL }),
  );

  test("have the tokens they have alone, and run together", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const running = asked.map((one) => engine.submit(one));
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params)),
    );
    expect(program.runs.some((run) => run.plans[0] === "decode" && run.rows === 4)).toBe(true);
    expect(engine.check()).toEqual([]);
  });

  test("wait for pages, in their order", async () => {
    const { engine } = makeEngine({ pages: 8, context: 128 });
    const ended: number[] = [];
    const running = asked.slice(0, 6).map((one) => engine.submit(one));
    for (const [i, one] of running.entries()) void one.completion.then(() => ended.push(i));
    const tokens = await Promise.all(running.map(tokensOf));
    expect(tokens).toEqual(
      asked.slice(0, 6).map(({ prompt, params }) => expectedTokens(prompt, params, 128)),
    );
    expect(ended).toHaveLength(6);
    expect(engine.check()).toEqual([]);
  });

  test("do not wait for a long prompt to be read", async () => {
    const { engine, program } = makeEngine({ pages: 128, context: 512, prefillChunk: 64 });
    const first = engine.submit(request(PROMPT, { maxTokens: 100, ...ALL }));
    await first.pieces[Symbol.asyncIterator]().next();
    engine.submit(request(promptOf(random, 400), { maxTokens: 4 }));
    await first.completion;
    const order = program.runs.map((run) => (run.plans[0] === "embed" ? "chunk" : "burst"));
    expect(order.join(" ")).not.toContain("chunk chunk chunk");
  });

  test("more than may wait are refused, and the others are answered", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const one = request([1], { maxTokens: 2, ...ALL });
    const running = Array.from({ length: 257 }, () => engine.submit(one));
    expect(() => {
      for (let i = 0; i < 10; i++) engine.submit(one);
    }).toThrow(expect.objectContaining({ code: "engine.busy" }));
    const all = await Promise.all(running.map(tokensOf));
    expect(new Set(all.map(String)).size).toBe(1);
  });
});

describe("an end before its time", () => {
  test("one that waits ends at once, one that runs with what it has", async () => {
    const { engine } = makeEngine({ pages: 16, context: 256, arrive: turn });
    const first = engine.submit(request(PROMPT, { maxTokens: 200, ...ALL }));
    const second = engine.submit(request(PROMPT, { maxTokens: 200, ...ALL }));
    second.cancel();
    expect((await second.completion).tokenIds).toEqual([]);
    await first.pieces[Symbol.asyncIterator]().next();
    first.cancel();
    const { tokenIds, text } = await first.completion;
    expect(textOf(tokenIds)).toBe(text);
    for (let i = 0; i < 5; i++) await turn();
    expect(engine.check()).toEqual([]);
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0 });
  });

  test("a run that fails ends those that run with its error, and the next ones are answered", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    program.failNext(new EdgewiseError("device.kernel", "A kernel failed."));
    const running = [1, 2].map((i) => engine.submit(request([i, 2, 3], { maxTokens: 9 })));
    const outcomes = await Promise.allSettled(running.map((one) => one.completion));
    expect(outcomes[0]).toMatchObject({ status: "rejected", reason: { code: "device.kernel" } });
    await expect(textIn(running[0] as Running)).rejects.toMatchObject({ code: "device.kernel" });
    const asked = request(PROMPT, { maxTokens: 9, ...ALL });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(PROMPT, asked.params));
    expect(engine.check()).toEqual([]);
  });

  test("a device that ends a sequence without a reason is not waited for", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const running = engine.submit(request(PROMPT, { maxTokens: 200, ...ALL }));
    await running.pieces[Symbol.asyncIterator]().next();
    program.corrupt("table", 3, 1);
    await expect(running.completion).rejects.toMatchObject({ code: "device.output" });
  });

  test.each([
    ["input.empty", [], {}],
    ["input.context", new Array<number>(256).fill(1), {}],
    ["input.token", [1, 64], {}],
    ["input.token", [1, -1], {}],
    ["input.token", [1, 0.5], {}],
    ["input.token", [1], { stopTokenIds: [64] }],
    ["input.token", [1], { logitBias: { 64: 1 } }],
  ])("a request that cannot be answered is refused: %s", (code, prompt, options) => {
    const { engine } = makeEngine({ pages: 64 });
    expect(() => engine.submit(request(prompt, options))).toThrow(
      expect.objectContaining({ code }),
    );
  });

  test("a closed engine ends everything and takes nothing", async () => {
    const { engine } = makeEngine({ pages: 64, arrive: turn });
    const running = engine.submit(request(PROMPT, { maxTokens: 9 }));
    engine.close();
    await expect(running.completion).rejects.toMatchObject({ code: "engine.closed" });
    expect(() => engine.submit(request(PROMPT))).toThrow(
      expect.objectContaining({ code: "engine.closed" }),
    );
    expect(engine.check()).toEqual([]);
  });
});
