/** Latency and cost told apart, from times as they come. */

import { describe, expect, test } from "vitest";
import { Line } from "../../engine/fit.ts";
import { Random } from "./random.ts";

function fitted(samples: readonly (readonly [size: number, ms: number])[]): Line {
  const line = new Line();
  for (const [size, ms] of samples) line.add(size, ms);
  return line;
}

const SIZES = [1, 2, 4, 8, 8, 8];

describe("a line", () => {
  test.each([
    [0, 30],
    [100, 0],
    [100, 3],
    [2, 70],
  ])("finds a latency of %i ms and %i ms a step", (latency, cost) => {
    const line = fitted(SIZES.map((size) => [size, latency + cost * size]));
    expect(line.told).toBe(true);
    expect(line.latency).toBeCloseTo(latency);
    expect(line.cost).toBeCloseTo(cost);
  });

  test("is not led astray by a few measurements that took far longer", () => {
    const sizes = [...SIZES, ...SIZES, ...SIZES];
    const line = fitted(sizes.map((size, i) => [size, 10 + 5 * size + (i % 7 === 3 ? 400 : 0)]));
    expect(line.latency).toBeCloseTo(10);
    expect(line.cost).toBeCloseTo(5);
  });

  test.each([5, 7, 12])("sees %i ms a step where a timer rounds up to 100 ms", (cost) => {
    const sizes = [...SIZES, 16, 16, 32, 32, 32, 32];
    const line = fitted(sizes.map((size) => [size, Math.ceil((cost * size) / 100) * 100]));
    expect(line.latency).toBeGreaterThan(20);
    expect(line.cost).toBeGreaterThan(cost / 2);
    expect(line.cost).toBeLessThan(cost * 1.5);
  });

  test("lets a few long bursts say more than many short ones that a timer made equal", () => {
    const sizes = [1, 2, 4, 8, 1, 2, 4, 8, 16, 16];
    const line = fitted(sizes.map((size) => [size, size > 8 ? 200 : 100]));
    expect(line.cost).toBeGreaterThan(5);
  });

  test("is sure of a latency only where nearly all measurements have it", () => {
    const sizes = [...SIZES, ...SIZES, ...SIZES];
    const busy = fitted(sizes.map((size, i) => [size, 5 * size + (i % 3 === 0 ? 0 : 60)]));
    expect(busy.latency).toBeGreaterThan(40);
    expect(busy.sure).toBeLessThan(20);
    const timer = fitted(sizes.map((size, i) => [size, 2 * size + (i === 9 ? 0 : 100)]));
    expect(timer.sure).toBeCloseTo(100);
  });

  test("is not told anything by three measurements", () => {
    const line = fitted([
      [1, 60],
      [2, 12],
      [4, 22],
    ]);
    expect([line.told, line.latency]).toEqual([false, 0]);
  });

  test("takes all for cost until sizes differ enough", () => {
    const line = fitted([
      [5, 100],
      [6, 90],
      [7, 140],
      [6, 120],
      [7, 100],
    ]);
    expect(line.told).toBe(false);
    expect(line.latency).toBe(0);
    expect(line.cost).toBeCloseTo(100 / 7);
  });

  test("keeps the latency while one size comes over and over, as long as there is room for it", () => {
    const line = fitted(SIZES.map((size) => [size, 50 + 2 * size]));
    for (let i = 0; i < 40; i++) line.add(8, i % 5 === 0 ? 90 : 66);
    expect(line.latency).toBeCloseTo(50);
    expect(line.cost).toBeCloseTo(2);
    for (let i = 0; i < 40; i++) line.add(8, 30);
    expect([line.latency, line.cost]).toEqual([30, 0]);
  });

  test("is never below nothing, whatever it is told", () => {
    const random = new Random(8);
    const line = new Line();
    for (let i = 0; i < 500; i++) {
      line.add(2 ** random.whole(0, 6), random.chance(0.1) ? 0 : 100 * random.next());
      expect(line.latency).toBeGreaterThanOrEqual(0);
      expect(line.cost).toBeGreaterThanOrEqual(0);
      expect(line.count).toBeLessThanOrEqual(24);
    }
  });

  test("forgets all but the last time, which is the most that a step takes", () => {
    const line = fitted(SIZES.map((size) => [size, 50 + 2 * size]));
    line.forget();
    expect(line).toEqual(fitted([[8, 66]]));
    expect([line.told, line.cost]).toEqual([false, 66 / 8]);
    expect(() => new Line().forget()).not.toThrow();
  });
});
