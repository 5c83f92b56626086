import { describe, expect, it } from "vitest";
import type { Scheme } from "../../format/manifest.ts";
import {
  fromHalf,
  halvesOf,
  integers,
  relativeError,
  rmsError,
  roundToCodes,
  roundToHalf,
  unpackRow,
  WORDS_PER_GROUP,
} from "../../selftest/numbers.ts";

describe("float16", () => {
  it("is read from its bits", () => {
    const bits = [0x0000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x7c00];
    const values = [0, 1, -2, 65504, 2 ** -24, 2 ** -14, Number.POSITIVE_INFINITY];
    expect(bits.map(fromHalf)).toEqual(values);
    expect(fromHalf(0x7e00)).toBeNaN();
  });

  it("is what every one of its own numbers rounds to", () => {
    for (let bits = 0; bits < 0x7c00; bits++) {
      expect(roundToHalf(fromHalf(bits))).toBe(fromHalf(bits));
      expect(roundToHalf(-fromHalf(bits))).toBe(-fromHalf(bits));
    }
  });

  it("rounds halves to even, and what is too large to infinity", () => {
    expect(roundToHalf(2049)).toBe(2048);
    expect(roundToHalf(2051)).toBe(2052);
    expect(roundToHalf(1 + 2 ** -11)).toBe(1);
    expect(roundToHalf(1 + 3 * 2 ** -11)).toBe(1 + 2 ** -9);
    expect(roundToHalf(2 ** -25)).toBe(0);
    expect(roundToHalf(65519)).toBe(65504);
    expect(roundToHalf(-65520)).toBe(Number.NEGATIVE_INFINITY);
  });
});

describe("int8 codes", () => {
  it("are the nearest multiples of a scale that float16 has, ties to even", () => {
    expect([...roundToCodes([127, -127, 0.5, 1.5, -2.5, 3.4])]).toEqual([127, -127, 0, 2, -2, 3]);
    const scale = roundToHalf(1 / 127);
    expect([...roundToCodes([1, -1, 0.25 * scale])]).toEqual([127 * scale, -127 * scale, 0]);
  });

  it("go as far as 127 under a scale that was rounded down, and are zeros under none", () => {
    expect([...roundToCodes([1.1e-5, -4e-6])]).toEqual([127 * 2 ** -24, -67 * 2 ** -24]);
    expect([...roundToCodes([3e-6, -1e-6, 0])].every((value) => value + 0 === 0)).toBe(true);
  });
});

describe("a packed row", () => {
  const [ONE, HALF] = [0x3c00, 0x3800]; // float16

  /** The first columns of a group whose other words are zero. */
  function first(scheme: Scheme, words: number[], count: number, scale = ONE): number[] {
    const group = new Uint32Array(WORDS_PER_GROUP[scheme]);
    group.set(words);
    return [...unpackRow(scheme, group, () => scale)].slice(0, count);
  }

  it("of q4 has column b in the low half of byte b, and b + 4 in the high half", () => {
    // Columns 0 to 7 are -8 to -1.
    const word = [0, 1, 2, 3].reduce((sum, b) => sum + (b + ((b + 4) << 4)) * 256 ** b, 0);
    expect(first("q4", [word], 8, HALF)).toEqual([-4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5]);
  });

  it("of q6 has low halves as q4, and in every third word two high bits of 16 columns", () => {
    // Low bits are 0 to 7 twice; the high bits of columns 4i to 4i+3 are i.
    const low = [0, 1, 2, 3].reduce((sum, b) => sum + (b + ((b + 4) << 4)) * 256 ** b, 0);
    const row = first("q6", [low, low, 0xe4_e4_e4_e4], 32);
    const expected = Array.from({ length: 16 }, (_, c) => (c % 8) + 16 * Math.floor(c / 4) - 32);
    expect(row).toEqual([...expected, ...new Array(16).fill(-32)]);
  });

  it("of q5 has low halves as q4, and in a fifth word the high bits of every fourth column", () => {
    // Low bits are 0 to 7 four times; of columns 4i to 4i+3 the i-th bit of 0xb2 is the high one.
    const low = [0, 1, 2, 3].reduce((sum, b) => sum + (b + ((b + 4) << 4)) * 256 ** b, 0);
    const row = first("q5", [low, low, low, low, 0xb2_b2_b2_b2], 32);
    const high = (c: number) => (0xb2 >> Math.floor(c / 4)) & 1;
    expect(row).toEqual(Array.from({ length: 32 }, (_, c) => (c % 8) + 16 * high(c) - 16));
  });

  it("of q4a has codes as q4 from zero on, a scale and then a minimum for every 32 columns", () => {
    const halves = [HALF, 0x4200, 0x4000, 0xbc00]; // 0.5 and 3, 2 and -1
    const row = unpackRow("q4a", new Uint32Array(8).fill(0x22222222), (at) => halves[at] ?? 0);
    expect([...row]).toEqual([...new Array(32).fill(-2), ...new Array(32).fill(5)]);
  });

  it("of q4k has scales and minima of six bits under float16 for eight groups of each", () => {
    // The first group's scale is 0x31 and its minimum 0x2e, the last one's 0x0f and 0x30.
    const words = [0xf000_0001, 0x0000_000e, 0xc000_000b, (0x4000 << 16) | HALF];
    const row = unpackRow("q4k", new Uint32Array(32).fill(0x22222222), (at) => {
      return ((words[at >> 1] ?? 0) >>> (16 * (at & 1))) & 0xffff;
    });
    expect(row.slice(0, 32)).toEqual(new Float64Array(32).fill(2 * 0x31 * 0.5 - 0x2e * 2));
    expect(row.slice(32, 64)).toEqual(new Float64Array(32).fill(0));
    expect(row.slice(224)).toEqual(new Float64Array(32).fill(2 * 0x0f * 0.5 - 0x30 * 2));
  });

  it("of iq4_nl and mxfp4 has codes as q4, which name the values of a table", () => {
    // Columns 0 to 7 are codes 0 to 7, columns 8 to 15 the others.
    const low = [0, 1, 2, 3].reduce((sum, b) => sum + (b + ((b + 4) << 4)) * 256 ** b, 0);
    const words = [low, (low | 0x88_88_88_88) >>> 0];
    const uneven = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    expect(first("iq4_nl", words, 16)).toEqual(uneven);
    const floats = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    expect(first("mxfp4", words, 16, HALF)).toEqual(floats.map((value) => value / 2));
  });

  it("of q4_nl, q5_nl and q6_nl has codes as of even steps, twice as wide ones outside", () => {
    const low = [0, 1, 2, 3].reduce((sum, b) => sum + (b + ((b + 4) << 4)) * 256 ** b, 0);
    const words = [low, (low | 0x88_88_88_88) >>> 0];
    const first = (scheme: Scheme, words: number[], count: number) => {
      const group = new Uint32Array(WORDS_PER_GROUP[scheme]);
      group.set(words);
      const unit = [0, 0x4380, 0x0001]; // 256, and a scale of one: 129 units
      return [...unpackRow(scheme, group, (at) => unit[at] ?? 0)]
        .slice(0, count)
        .map((value) => value / (129 * 256));
    };
    const fours = [-12, -10, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 10];
    expect(first("q4_nl", words, 16)).toEqual(fours);
    const inner = Array.from({ length: 17 }, (_, i) => i - 8);
    const fives = [-24, -22, -20, -18, -16, -14, -12, -10, ...inner, 10, 12, 14, 16, 18, 20, 22];
    expect(first("q5_nl", [...words, ...words, 0xf0_f0_f0_f0], 32)).toEqual(fives);
    const outer = Array.from({ length: 16 }, (_, i) => 2 * i);
    expect(first("q6_nl", [...words, 0], 16)).toEqual(outer.map((value) => value - 48));
    const last = outer.map((value) => value + 16);
    expect(first("q6_nl", [...words, 0xff_ff_ff_ff], 16)).toEqual(last);
  });

  it("of q5_nl has bytes n that stand for n (|n| + 128) units of the row", () => {
    // A half, then the bytes 2, -1, 127, -127 and 100 of five groups; and zeros up to a whole word.
    const halves = [0, 0x3f00, 0xff02, 0x817f, 0x0064, 0];
    expect(halvesOf("q5_nl", 5)).toBe(halves.length);
    const row = unpackRow("q5_nl", new Uint32Array(25), (at) => halves[at] ?? Number.NaN);
    const scales = [2 * 130, -129, 127 * 255, -127 * 255, 100 * 228];
    expect([0, 1, 2, 3, 4].map((group) => row[32 * group])).toEqual(
      scales.map((s) => -24 * (s / 2)),
    );
  });

  it("of q8 has a column a byte, 128 more than its value", () => {
    expect(first("q8", [0xff_80_7f_00], 4)).toEqual([-128, -1, 0, 127]);
  });

  it("of f16 has two columns a word", () => {
    expect(first("f16", [0xc000_3c00], 2)).toEqual([1, -2]);
  });

  it("takes a scale for every 32 columns", () => {
    const row = unpackRow(
      "q8",
      new Uint32Array(16).fill(0x81818181),
      (at) => [ONE, 0x4000][at] ?? 0,
    );
    expect([...row]).toEqual([...new Array(32).fill(1), ...new Array(32).fill(2)]);
  });
});

describe("the inputs", () => {
  it("are the same for the same seed, within their bound", () => {
    const drawn = integers(1000, 320, 7);
    expect(drawn).toEqual(integers(1000, 320, 7));
    expect(drawn).not.toEqual(integers(1000, 320, 8));
    expect(Math.min(...drawn)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...drawn)).toBeLessThan(320);
    expect(new Set(drawn).size).toBeGreaterThan(250);
  });
});

describe("the error of a result", () => {
  it("is the largest difference over the reference's root mean square", () => {
    expect(relativeError([1, 2, 3], [1, 2, 3])).toBe(0);
    expect(relativeError([3, 4.5], [3, 4])).toBeCloseTo(0.5 / Math.sqrt(12.5));
  });

  it("is infinite where a value is missing or not finite", () => {
    expect(relativeError([1], [1, 2])).toBe(Number.POSITIVE_INFINITY);
    expect(relativeError([Number.NaN], [1])).toBe(Number.POSITIVE_INFINITY);
    expect(relativeError([1], [0])).toBe(Number.POSITIVE_INFINITY);
  });

  it("of two programs is a root mean square too", () => {
    expect(rmsError([1, 2], [1, 2])).toBe(0);
    expect(rmsError([4, 4], [3, 4])).toBeCloseTo(1 / 5);
    expect(rmsError([1], [1, 2])).toBe(Number.POSITIVE_INFINITY);
    expect(rmsError([1], [0])).toBe(Number.POSITIVE_INFINITY);
  });
});
