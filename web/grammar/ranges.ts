/** Sets of code points as sorted, disjoint, inclusive ranges; surrogates are never in one. */

export type Pair = readonly [number, number];
export type Ranges = readonly Pair[];

export const LAST = 0x10ffff;
export const SURROGATES: Pair = [0xd800, 0xdfff];

/** The union of inclusive pairs in any order, as few ranges as it takes, without surrogates. */
export function rangesOf(pairs: Iterable<Pair>): Ranges {
  const [firstSurrogate, lastSurrogate] = SURROGATES;
  const whole: [number, number][] = [];
  for (const [first, last] of pairs) {
    if (first < firstSurrogate) whole.push([first, Math.min(last, firstSurrogate - 1)]);
    if (last > lastSurrogate) whole.push([Math.max(first, lastSurrogate + 1), last]);
  }
  whole.sort((a, b) => a[0] - b[0]);
  const joined: [number, number][] = [];
  for (const [first, last] of whole) {
    const before = joined.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else joined.push([first, last]);
  }
  return joined;
}

/** All code points that are not in `ranges`. */
export function others(ranges: Ranges): Ranges {
  const gaps: Pair[] = [];
  let after = 0;
  for (const [first, last] of ranges) {
    if (after < first) gaps.push([after, first - 1]);
    after = last + 1;
  }
  if (after <= LAST) gaps.push([after, LAST]);
  return rangesOf(gaps);
}

/** What is in both. */
export function common(left: Ranges, right: Ranges): Ranges {
  const found: Pair[] = [];
  let [i, j] = [0, 0];
  for (let a = left[i], b = right[j]; a && b; a = left[i], b = right[j]) {
    const first = Math.max(a[0], b[0]);
    const last = Math.min(a[1], b[1]);
    if (first <= last) found.push([first, last]);
    if (a[1] < b[1]) i += 1;
    else j += 1;
  }
  return found;
}

/** The set of a text's characters. */
export function characters(text: string): Ranges {
  return rangesOf(Array.from(text, (c) => [c.codePointAt(0) ?? 0, c.codePointAt(0) ?? 0]));
}

export function sameRanges(a: Ranges, b: Ranges): boolean {
  return a.length === b.length && a.every(([x, y], i) => b[i]?.[0] === x && b[i]?.[1] === y);
}

export const EVERY = rangesOf([[0, LAST]]);
