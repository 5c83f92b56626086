import { describe, expect, test } from "vitest";
import { Lookup } from "../../../engine/drafts/lookup.ts";
import { Random } from "../random.ts";

describe("drafts from the text itself", () => {
  test.each([
    ["a text that never repeats has none", [1, 2, 3, 4], 3, []],
    ["what followed the longest end", [1, 2, 9, 5, 2, 8, 1, 2], 2, [9, 5]],
    ["the latest of equals", [1, 7, 1, 8, 1], 1, [8]],
    [
      "a loop goes round for as long as is asked for",
      [1, 2, 3, 1, 2, 3, 1],
      7,
      [2, 3, 1, 2, 3, 1, 2],
    ],
    ["one token over and over", [4, 4, 4], 3, [4, 4, 4]],
    ["nothing follows nothing", [], 3, []],
  ])("%s", (_, tokens, k, expected) => {
    expect(new Lookup().propose(tokens, k)).toEqual(expected);
  });

  test("are those of the whole text however it has grown", () => {
    const random = new Random(7);
    for (let round = 0; round < 20; round++) {
      const text = Array.from({ length: 120 }, () => random.whole(0, 3));
      const growing = new Lookup();
      for (let end = 1; end <= text.length; end += random.whole(1, 9)) {
        const known = text.slice(0, end);
        expect(growing.propose(known, 5)).toEqual(new Lookup().propose(known, 5));
        expect(growing.propose(known, 5)).toEqual(plainly(known, 5));
      }
    }
  });

  test("forget what lies further back than the window", () => {
    const distinct = Array.from({ length: 9000 }, (_, i) => 10 + i);
    const lookup = new Lookup();
    lookup.propose([1, 2, ...distinct.slice(0, 10)], 1);
    expect(lookup.propose([1, 2, ...distinct, 1], 1)).toEqual([]);
    expect(lookup.propose([1, 2, ...distinct, 1, 8000], 1)).toEqual([8001]);
  });
});

/** What followed the latest occurrence of the longest of the last four ends, by looking everywhere. */
function plainly(tokens: readonly number[], k: number): number[] {
  for (let length = Math.min(4, tokens.length); length > 0; length--) {
    const end = tokens.slice(-length).join();
    for (let at = tokens.length - 1; at >= length; at--) {
      if (tokens.slice(at - length, at).join() !== end) continue;
      const copied = tokens.slice(at, at + k);
      return Array.from({ length: k }, (_, i) => copied[i % copied.length] ?? 0);
    }
  }
  return [];
}
