import { describe, expect, test } from "vitest";
import { bestLength, DraftLength } from "../../../engine/drafts/length.ts";

const cheap = (k: number) => 1 + 0.15 * k;
const dear = (k: number) => 2 + k;

describe("the best length", () => {
  test.each([
    ["all where everything is right", 1, 7, cheap, 7],
    ["none where nothing is", 0, 7, cheap, 0],
    ["a few where half is", 0.5, 7, cheap, 2],
    ["none where verifying takes longer than decoding", 1, 7, dear, 0],
    ["none where none may be", 1, 0, cheap, 0],
  ])("is %s", (_, acceptance, most, price, expected) => {
    expect(bestLength(acceptance, most, price)).toBe(expected);
  });

  test("is the one with the most tokens for the time", () => {
    for (const acceptance of [0.1, 0.3, 0.6, 0.9, 0.99]) {
      const speeds = Array.from({ length: 8 }, (_, k) => {
        const tokens = Array.from({ length: k + 1 }, (_, i) => acceptance ** i);
        return tokens.reduce((sum, one) => sum + one, 0) / (k === 0 ? 1 : cheap(k));
      });
      const best = speeds.indexOf(Math.max(...speeds));
      expect(bestLength(acceptance, 7, cheap)).toBe(best);
    }
  });
});

describe("the length of the next draft", () => {
  test("grows while drafts are right", () => {
    const length = new DraftLength();
    const first = length.next(7, cheap);
    for (let i = 0; i < 20; i++) length.observe(7, 7, 7, cheap);
    expect(first).toBeGreaterThan(0);
    expect(length.next(7, cheap)).toBe(7);
  });

  test("is none after wrong ones, then one now and then, ever more rarely", () => {
    const length = new DraftLength();
    const tried: number[] = [];
    for (let look = 0; look < 400; look++) {
      const k = length.next(7, cheap);
      if (k > 0) tried.push(look);
      length.observe(k, 0, 7, cheap);
    }
    const gaps = tried.slice(1).map((at, i) => at - (tried[i] ?? 0));
    expect(gaps.at(-1)).toBe(65);
    expect(gaps.slice(-3)).toEqual(gaps.slice(-3).toSorted((a, b) => a - b));
    expect(length.hopes(7, cheap)).toBe(false);
  });

  test("is one now and then where none pays, however right they are", () => {
    const length = new DraftLength();
    let tried = 0;
    for (let look = 0; look < 200; look++) {
      const k = length.next(7, dear);
      expect(k).toBeLessThan(2);
      tried += k;
      length.observe(k, k, 7, dear);
    }
    expect(tried).toBeLessThan(9);
    expect(length.next(0, dear)).toBe(0);
  });
});
