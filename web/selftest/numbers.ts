/** Numbers as kernels store them: float16, packed weights, and inputs that are always the same. */

import { GROUP } from "../format/abi.ts";

/** float16 bits as a number. */
export function fromHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
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

export type Scheme = "f32" | "f16" | "q8" | "q4";

/** Columns of a matrix in one 32-bit word of the GPU layout. */
export const COLUMNS_PER_WORD: Readonly<Record<Scheme, number>> = { f32: 1, f16: 2, q8: 4, q4: 8 };

/**
 * One row of a matrix in the GPU layout (docs/bundle-format.md), in columns' order.
 *
 * @param words the row's words; float32 rows come as their numbers.
 * @param scale of a group of columns; 1 for schemes without scales.
 */
export function unpackRow(
  scheme: Scheme,
  words: ArrayLike<number>,
  scale: (group: number) => number,
): Float64Array {
  const perWord = COLUMNS_PER_WORD[scheme];
  const row = new Float64Array(words.length * perWord);
  for (let column = 0; column < row.length; column++) {
    const word = words[Math.floor(column / perWord)] ?? Number.NaN;
    row[column] = unpack(scheme, word, column % perWord) * scale(Math.floor(column / GROUP));
  }
  return row;
}

function unpack(scheme: Scheme, word: number, place: number): number {
  switch (scheme) {
    case "f32":
      return word;
    case "f16":
      return fromHalf((word >>> (16 * place)) & 0xffff);
    case "q8":
      return ((word >>> (8 * place)) & 255) - 128;
    case "q4": // byte b: column b in its low half, column b + 4 in its high half
      return ((word >>> (8 * (place % 4) + (place < 4 ? 0 : 4))) & 15) - 8;
  }
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
