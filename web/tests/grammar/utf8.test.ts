/** Ranges of characters and the bytes that UTF-8 writes them with are the same set. */

import { expect, test } from "vitest";
import { LAST, type Pair, rangesOf } from "../../grammar/ranges.ts";
import { bytesOf, utf8Sequences } from "../../grammar/utf8.ts";
import { Random } from "../engine/random.ts";

const EDGES = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x3ffff, LAST];

function randomPair(rng: Random): Pair {
  const point = () => {
    const near = rng.pick(EDGES) + rng.pick([0, 0, rng.whole(-70, 70), rng.whole(-5000, 5000)]);
    return Math.min(LAST, Math.max(0, near));
  };
  const [a, b] = [point(), point()];
  return rng.chance(0.3) ? [a, a] : [Math.min(a, b), Math.max(a, b)];
}

const sizeOf = (sequence: readonly Pair[]) =>
  sequence.reduce((size, [first, last]) => size * (last - first + 1), 1);

test("200 sets at random have as many byte strings as characters, each of which is in one", () => {
  for (let seed = 0; seed < 200; seed++) {
    const rng = new Random(seed);
    const ranges = rangesOf(Array.from({ length: rng.whole(1, 4) }, () => randomPair(rng)));
    const sequences = utf8Sequences(ranges);
    const characters = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    expect(sequences.reduce((sum, sequence) => sum + sizeOf(sequence), 0)).toBe(characters);
    for (const [first, last] of ranges) {
      for (const code of [first, last, rng.whole(first, last)]) {
        const bytes = [...bytesOf(String.fromCodePoint(code))];
        const holding = sequences.filter(
          (sequence) =>
            sequence.length === bytes.length &&
            sequence.every(([low, high], i) => low <= (bytes[i] ?? -1) && (bytes[i] ?? -1) <= high),
        );
        expect(holding, `seed ${seed}, character ${code}`).toHaveLength(1);
      }
    }
  }
});
