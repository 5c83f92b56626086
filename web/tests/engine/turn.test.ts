import { describe, expect, test } from "vitest";
import { byTurn, newTurn, PASSES, passedBy } from "../../engine/turn.ts";
import { expectedTokens } from "./expected.ts";
import { makeEngine, request, tokensOf } from "./support.ts";

const waiting = (arrival: number, priority = 0, passes = 0) => ({
  params: { priority },
  turn: { ...newTurn(), arrival, passes },
});

describe("turns", () => {
  test.each([
    ["by arrival", [waiting(0), waiting(1)]],
    ["by priority, the smallest first", [waiting(1, -2), waiting(0, 3)]],
    ["those whose turn has come before all others", [waiting(5, 9, PASSES), waiting(0, -9)]],
    ["those among each other by arrival", [waiting(1, 9, PASSES), waiting(2, -9, PASSES)]],
  ])("are %s", (_, expected) => {
    expect(expected.toReversed().sort(byTurn)).toEqual(expected);
  });

  test("only the first of those that came earlier has been passed", () => {
    const [first, second, better] = [waiting(0, 5), waiting(1, 5), waiting(0, -5)];
    passedBy(waiting(2), [second, better, first, waiting(3, 5)]);
    expect([first, second, better].map(({ turn }) => turn.passes)).toEqual([1, 0, 0]);
  });
});

describe("requests", () => {
  test("go by their priority, then in the order in which they came", async () => {
    const ended = await order([0, 0, -1, 7, -1]);
    expect(ended).toEqual([0, 2, 4, 1, 3]);
  });

  test("of a worse priority have their turn after so many others", async () => {
    const ended = await order([0, 3, ...Array.from({ length: PASSES + 4 }, () => 0)]);
    expect(ended.indexOf(1)).toBe(PASSES + 1);
  });

  test.each([2 ** 31 + 1, -(2 ** 31) - 1, 0.5])("a priority of %d is refused", (priority) => {
    expect(() => request([1], { priority })).toThrow(/priority/);
  });
});

/** In which order requests of these priorities end, one at a time; the first runs when the others come. */
async function order(priorities: readonly number[]): Promise<number[]> {
  const { engine } = makeEngine({ pages: 64, maxBatch: 1 });
  const ended: number[] = [];
  const asked = priorities.map((priority, i) => request([i + 1], { maxTokens: 6, priority }));
  const running = asked.map((one) => engine.submit(one));
  for (const [i, one] of running.entries()) void one.completion.then(() => ended.push(i));
  for (const [i, one] of running.entries()) {
    const { prompt, params } = asked[i] ?? request([]);
    expect(await tokensOf(one)).toEqual(expectedTokens(prompt, params));
  }
  expect(engine.check()).toEqual([]);
  return ended;
}
