/** Several answers to one prompt, which is read once. */

import { describe, expect, it } from "vitest";
import { expectedTokens, seedOf } from "./expected.ts";
import { Random } from "./random.ts";
import { makeEngine, promptOf, request, tokensOf } from "./support.ts";

const random = new Random(32);
const PROMPT = promptOf(random, 100);
const SAMPLED = { temperature: 0.9, seed: 7, maxTokens: 25, ignoreEos: true };

describe("choices of a prompt", () => {
  it.each([1, 3, 9])("are %i with random numbers of their own, the first as alone", async (n) => {
    const { engine } = makeEngine({ pages: 200 });
    const asked = request(PROMPT, SAMPLED);
    const choices = await Promise.all(engine.choices(asked, n).map(tokensOf));
    const expected = choices.map((_, index) =>
      expectedTokens(PROMPT, { ...asked.params, seed: seedOf(7n, index) }),
    );
    expect(choices).toEqual(expected);
    expect(new Set(choices.map(String)).size).toBe(n);
    expect(choices[0]).toEqual(await tokensOf(engine.submit(asked)));
    expect(engine.check()).toEqual([]);
  });

  it("share the full pages of their prompt while the first is written", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const choices = engine.choices(request(PROMPT, SAMPLED), 4);
    const usages = await Promise.all(choices.map(async (one) => (await one.completion).usage));
    expect(usages.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 96, 96, 96]);
    const read = program.runs.filter(({ plans }) => plans.includes("embed"));
    expect(read.reduce((sum, { rows }) => sum + rows, 0)).toBe(100 + 3 * 4);
    expect(engine.check()).toEqual([]);
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0 });
  });

  it("have one seed where none is given, and end on their own", async () => {
    const { engine } = makeEngine({ pages: 64 });
    const [first, ...others] = engine.choices(request(PROMPT, { ...SAMPLED, seed: -1 }), 3);
    others[0]?.cancel();
    const ended = await Promise.all([first, ...others].map(({ completion }) => completion));
    expect(new Set(ended.map(({ seed }) => seed)).size).toBe(1);
    expect(ended.map(({ finishReason }) => finishReason)).toEqual([
      "length",
      "cancelled",
      "length",
    ]);
    expect(engine.check()).toEqual([]);
  });

  it("go on as they were after a lost device", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, SAMPLED);
    const choices = engine.choices(asked, 3);
    await choices[2]?.pieces[Symbol.asyncIterator]().next();
    program.lose();
    engine.replaceProgram(makeEngine({ pages: 64 }).program);
    for (const [index, one] of choices.entries()) {
      const params = { ...asked.params, seed: seedOf(7n, index) };
      expect(await tokensOf(one)).toEqual(expectedTokens(PROMPT, params));
    }
    expect(engine.check()).toEqual([]);
  });

  it("are refused where more would wait than may", () => {
    const { engine } = makeEngine({ pages: 64 });
    const asked = () => engine.choices(request(PROMPT, SAMPLED), 257);
    expect(asked).toThrow(expect.objectContaining({ code: "engine.busy" }));
  });
});
