/** Text that may be anything, up to a trigger. */

import { EdgewiseError, shorten } from "../errors.ts";

/** Bytes of all triggers together. */
const MAX_BYTES = 1024;

/**
 * Where each byte leads from each place of free text: a place, the first of which is 0, or as many
 * as there are where a trigger is whole.
 *
 * A place is the longest beginning of a trigger that the text ends in (A. Aho and M. Corasick,
 * "Efficient String Matching", 1975).
 *
 * @throws EdgewiseError `constraint.triggers` for none, for an empty one, and for too many.
 */
export function freeText(triggers: readonly Uint8Array[]): readonly Int32Array[] {
  const words = triggers.map((trigger) => [...trigger]);
  const size = words.reduce((sum, word) => sum + word.length, 0);
  if (words.length === 0 || size > MAX_BYTES || words.some((word) => word.length === 0)) {
    throw new EdgewiseError(
      "constraint.triggers",
      `Cannot wait for ${triggers.length} triggers of ${size} bytes: ${shorten(words)}.`,
      `Give at least one, none of them empty, and ${MAX_BYTES} bytes at most.`,
    );
  }
  const places = new Map([["", 0]]);
  for (const word of words) {
    for (let end = 1; end < word.length; end++) {
      const beginning = word.slice(0, end).join();
      if (!places.has(beginning)) places.set(beginning, places.size);
    }
  }
  const whole = new Set(words.map((word) => word.join()));
  const letters = new Set(words.flat());
  return [...places.keys()].map((place) => {
    const row = new Int32Array(256);
    const text = place === "" ? [] : place.split(",").map(Number);
    for (const byte of letters) row[byte] = after([...text, byte], places, whole);
    return row;
  });
}

function after(
  text: readonly number[],
  places: ReadonlyMap<string, number>,
  whole: ReadonlySet<string>,
): number {
  const ends = text.map((_, start) => text.slice(start).join());
  if (ends.some((end) => whole.has(end))) return places.size;
  return ends.map((end) => places.get(end)).find((place) => place !== undefined) ?? 0;
}
