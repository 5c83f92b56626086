/** Sets of characters as the byte sequences that UTF-8 writes them with. */

import type { Pair, Ranges } from "./ranges.ts";

const ENDS_BY_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/**
 * The characters as sequences of byte ranges: a text of one of them is any bytes out of one sequence.
 *
 * No two sequences have a byte string in common, and where two ranges in the same place after the
 * same ones overlap, they are equal. Ranges are cut where the encoded length changes, and then where
 * not all continuations of a byte are in one (K. Thompson's `rgrep`, as told by R. Cox, "Regular
 * Expression Matching in the Wild", 2010).
 */
export function utf8Sequences(ranges: Ranges): readonly (readonly Pair[])[] {
  const found: (readonly Pair[])[] = [];
  const left: Pair[] = ranges.toReversed();
  for (let range = left.pop(); range; range = left.pop()) {
    const [first, last] = range;
    const cut = cutAfter(first, last);
    if (cut === null) {
      const ends = encoded(last);
      found.push(encoded(first).map((byte, i) => [byte, ends[i] ?? byte]));
    } else left.push([cut + 1, last], [first, cut]);
  }
  return found;
}

/** The bytes of a text. */
export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Behind which code point a range has to be cut; null where each byte of it is one range. */
function cutAfter(first: number, last: number): number | null {
  const end = ENDS_BY_LENGTH.find((end) => first <= end) ?? last;
  if (last > end) return end;
  if (last <= 0x7f) return null;
  for (const bits of [6, 12, 18]) {
    const low = (1 << bits) - 1;
    if ((first & ~low) === (last & ~low)) continue;
    if (first & low) return first | low;
    if ((last & low) !== low) return (last & ~low) - 1;
  }
  return null;
}

function encoded(code: number): readonly number[] {
  if (code <= 0x7f) return [code];
  const tail = (shift: number) => 0x80 | ((code >> shift) & 0x3f);
  if (code <= 0x7ff) return [0xc0 | (code >> 6), tail(0)];
  if (code <= 0xffff) return [0xe0 | (code >> 12), tail(6), tail(0)];
  return [0xf0 | (code >> 18), tail(12), tail(6), tail(0)];
}
