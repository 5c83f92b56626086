/** Numbers as kernels store them: float16, packed weights, and inputs that are always the same. */

import { GROUP } from "../format/abi.ts";
import type { Scheme } from "../format/manifest.ts";

/** float16 bits as a number. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** float32 bits as a number. */
function floatOf(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0] ?? Number.NaN;
}

/** The nearest number that float16 has, ties to even; beyond its largest, infinity. */
export function roundToHalf(value: number): number {
  const size = Math.abs(value);
  if (!(size > 0) || size === Number.POSITIVE_INFINITY) return value;
  const step = 2 ** Math.max(Math.floor(Math.log2(size)) - 10, -24);
  const rounded = roundEven(value / step) * step;
  return Math.abs(rounded) >= 65520 ? Math.sign(value) * Number.POSITIVE_INFINITY : rounded;
}

/** A head's numbers as int8 codes under one float16 scale keep them (docs/bundle-format.md). */
export function roundToCodes(head: ArrayLike<number>): Float64Array {
  let largest = 0;
  for (let i = 0; i < head.length; i++) largest = Math.max(largest, Math.abs(head[i] ?? 0));
  const scale = roundToHalf(largest / 127);
  return Float64Array.from(head, (value) => {
    const code = scale > 0 ? roundEven(value / scale) : 0;
    return Math.max(-127, Math.min(127, code)) * scale;
  });
}

function roundEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** Words of 32 bits in a group of columns of the GPU layout. */
export const WORDS_PER_GROUP: Readonly<Record<Scheme, number>> = {
  f32: 32,
  f16: 16,
  q8: 8,
  q6: 6,
  q6_nl: 6,
  q5: 5,
  q5_nl: 5,
  q4: 4,
  q4_nl: 4,
  q4a: 4,
  q4k: 4,
  iq4_nl: 4,
  mxfp4: 4,
};

/** Half words that a group has for its scale, and for its minimum if there is one. */
const HALVES_PER_GROUP: Readonly<Record<Scheme, number>> = {
  f32: 0,
  f16: 0,
  q8: 1,
  q6: 1,
  q6_nl: 0.5, // a byte, and a unit for the row
  q5: 1,
  q5_nl: 0.5,
  q4: 1,
  q4_nl: 0.5,
  q4a: 2,
  q4k: 1, // four words for eight groups
  iq4_nl: 1,
  mxfp4: 1,
};

/** Half words that the groups of a row have besides codes. */
export function halvesOf(scheme: Scheme, groups: number): number {
  const each = HALVES_PER_GROUP[scheme];
  return each === 0.5 ? 2 + 2 * Math.ceil(groups / 4) : each * groups;
}

/** What codes stand for that name the values of a table. */
const TABLES = {
  iq4_nl: [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
  mxfp4: [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12],
};

/**
 * One row of a matrix in the GPU layout (docs/bundle-format.md), in columns' order.
 *
 * @param words the row's words; float32 rows come as their numbers.
 * @param half what its groups have besides codes, `halvesOf` them.
 */
export function unpackRow(
  scheme: Scheme,
  words: ArrayLike<number>,
  half: (at: number) => number,
): Float64Array {
  const groups = words.length / WORDS_PER_GROUP[scheme];
  const row = new Float64Array(groups * GROUP);
  for (let group = 0; group < groups; group++) {
    const first = group * WORDS_PER_GROUP[scheme];
    const word = (at: number) => words[first + at] ?? Number.NaN;
    const [scale, minimum] = scaling(scheme, half, group);
    for (let column = 0; column < GROUP; column++) {
      row[group * GROUP + column] = VALUES[scheme](word, column) * scale - minimum;
    }
  }
  return row;
}

/** What a group's integers are multiplied with, and what is taken off then. */
function scaling(scheme: Scheme, half: (at: number) => number, group: number): [number, number] {
  const count = HALVES_PER_GROUP[scheme];
  if (count === 0) return [1, 0];
  if (count === 0.5) {
    const signed = (half(2 + (group >> 1)) << (group & 1 ? 16 : 24)) >> 24;
    return [signed * (Math.abs(signed) + 128) * floatOf(half(0) | (half(1) << 16)), 0];
  }
  if (scheme !== "q4k") {
    return [fromHalf(half(group * count)), count > 1 ? fromHalf(half(group * count + 1)) : 0];
  }
  // Of eight groups four bits of each scale, four of each minimum, two more of both, two float16.
  const first = (group >> 3) * 8;
  const four = (word: number) => {
    const bit = 4 * (group & 7);
    return (half(first + 2 * word + (bit >> 4)) >> (bit & 15)) & 15;
  };
  const scale = four(0) | ((four(2) & 3) << 4);
  const minimum = four(1) | ((four(2) & 12) << 2);
  return [scale * fromHalf(half(first + 6)), minimum * fromHalf(half(first + 7))];
}

/** A column of a group, given the group's words. */
const VALUES: Readonly<Record<Scheme, (word: (at: number) => number, column: number) => number>> = {
  f32: (word, column) => word(column),
  f16: (word, column) => fromHalf((word(column >> 1) >>> (16 * (column & 1))) & 0xffff),
  q8: (word, column) => ((word(column >> 2) >>> (8 * (column & 3))) & 255) - 128,
  q6: (word, column) => six(word, column) - 32,
  q6_nl: (word, column) => bent(six(word, column) - 32, 16),
  q5: (word, column) => five(word, column) - 16,
  q5_nl: (word, column) => bent(five(word, column) - 16, 8),
  q4: (word, column) => nibble(word(column >> 3), column) - 8,
  q4_nl: (word, column) => bent(nibble(word(column >> 3), column) - 8, 4),
  q4a: (word, column) => nibble(word(column >> 3), column),
  q4k: (word, column) => nibble(word(column >> 3), column),
  iq4_nl: (word, column) => TABLES.iq4_nl[nibble(word(column >> 3), column)] ?? Number.NaN,
  mxfp4: (word, column) => TABLES.mxfp4[nibble(word(column >> 3), column)] ?? Number.NaN,
};

/** Of eight codes in a word, byte b has column b in its low half, column b + 4 in its high half. */
function nibble(word: number, column: number): number {
  return (word >>> (8 * (column & 3) + (column & 4))) & 15;
}

/** Of 16 columns two words as in q4, and one that has two more bits of each. */
function six(word: (at: number) => number, column: number): number {
  const run = (column >> 4) * 3;
  const [low, rest] = [word(run + ((column >> 3) & 1)), word(run + 2)];
  const high = (rest >>> (8 * (column & 3) + 2 * ((column >> 2) & 3))) & 3;
  return nibble(low, column) | (high << 4);
}

/** Four words as in q4, and one that has one more bit of each column. */
function five(word: (at: number) => number, column: number): number {
  const high = (word(4) >>> (8 * (column & 3) + (column >> 2))) & 1;
  return nibble(word(column >> 3), column) | (high << 4);
}

/** Numbers up to `bend` of either sign are integers themselves, beyond it integers lie two apart. */
function bent(number: number, bend: number): number {
  return 2 * number - Math.max(-bend, Math.min(bend, number));
}

/** Whole numbers from 0 to `below` - 1, the same for the same seed (Marsaglia's xorshift32). */
export function integers(count: number, below: number, seed: number): Int32Array<ArrayBuffer> {
  let state = seed | 1;
  return Int32Array.from({ length: count }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  });
}

/** Largest difference over the reference's root mean square; infinite where a value is not finite. */
export function relativeError(found: ArrayLike<number>, reference: ArrayLike<number>): number {
  let largest = 0;
  let squares = 0;
  for (let i = 0; i < reference.length; i++) {
    const expected = reference[i] ?? Number.NaN;
    const difference = Math.abs((found[i] ?? Number.NaN) - expected);
    if (!Number.isFinite(difference)) return Number.POSITIVE_INFINITY;
    largest = Math.max(largest, difference);
    squares += expected * expected;
  }
  if (largest === 0) return 0;
  return squares > 0 ? largest / Math.sqrt(squares / reference.length) : Number.POSITIVE_INFINITY;
}

/** Root mean square of the differences over that of the reference; infinite as `relativeError`. */
export function rmsError(found: ArrayLike<number>, reference: ArrayLike<number>): number {
  let wrong = 0;
  let squares = 0;
  for (let i = 0; i < reference.length; i++) {
    const expected = reference[i] ?? Number.NaN;
    wrong += ((found[i] ?? Number.NaN) - expected) ** 2;
    squares += expected * expected;
  }
  if (wrong === 0) return 0;
  const error = Math.sqrt(wrong / squares);
  return Number.isFinite(error) ? error : Number.POSITIVE_INFINITY;
}
