/** Stop strings: found across pieces, never shown in part, whatever the pieces are. */

import { expect, test } from "vitest";
import { StopStrings } from "../../engine/stops.ts";
import { Random } from "./random.ts";

/** What comes out piece by piece, and the stop string that was found. */
function passed(stops: readonly string[], pieces: readonly string[]): [string[], string | null] {
  const stopper = new StopStrings(stops);
  const out = pieces.map((piece) => stopper.push(piece));
  return [[...out, stopper.finish()], stopper.found];
}

test.each<[string[], string[], string[], string | null]>([
  [[], ["a", "b"], ["a", "b", ""], null],
  [["END"], ["one EN", "D two"], ["one ", "", ""], "END"],
  [["END"], ["one EN", "T two"], ["one ", "ENT two", ""], null],
  [["END"], ["E", "N"], ["", "", "EN"], null],
  [["aab"], ["aa", "aab", "x"], ["", "aa", "", ""], "aab"],
  [["b", "abc"], ["xab", "c"], ["xa", "", ""], "b"],
  [["bc", "abc"], ["xab", "c"], ["x", "", ""], "abc"],
  [["\n\n"], ["a\n", "\n", "b"], ["a", "", "", ""], "\n\n"],
  [["é😀"], ["caf", "é", "😀"], ["caf", "", "", ""], "é😀"],
])("text ends before the stop string: %j %j", (stops, pieces, expected, found) => {
  expect(passed(stops, pieces)).toEqual([expected, found]);
});

test.each([1, 2, 3, 4])("the pieces make no difference (seed %i)", (seed) => {
  const random = new Random(seed);
  for (let i = 0; i < 300; i++) {
    const text = random.text("ab", 30);
    const stops = Array.from({ length: random.whole(0, 3) }, () => `a${random.text("ab", 3)}`);
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = random.whole(1, 6);
      pieces.push(text.slice(at, at + length));
      at += length;
    }
    const [out, found] = passed(stops, pieces);
    const [whole, foundAtOnce] = passed(stops, [text]);
    const shown = out.join("");
    expect(found).toBe(foundAtOnce);
    expect(shown).toBe(whole.join(""));
    expect(stops.some((stop) => shown.includes(stop))).toBe(false);
    expect(text.startsWith(found === null ? text : shown + found)).toBe(true);
    if (found === null) expect(shown).toBe(text);
  }
});
