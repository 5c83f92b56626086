import { expect, test } from "vitest";
import { Histogram, steps125 } from "../../../engine/metrics/histogram.ts";

test("bounds are the numbers that people write", () => {
  expect(steps125(-1, 1)).toEqual([0.1, 0.2, 0.5, 1, 2, 5, 10]);
});

test("values are counted at or below their bounds", () => {
  const one = new Histogram([1, 2, 5]);
  for (const value of [1, 1.5, 2, 9]) one.observe(value);
  one.observe(3, 4);
  one.observe(3, 0);
  const { count, sum, buckets } = one.snapshot();
  expect([count, sum]).toEqual([8, 25.5]);
  expect(buckets).toEqual({ "1": 1, "2": 3, "5": 7, "+Inf": 8 });
});

test("percentiles lie between the smallest and the largest value, and equal values give themselves", () => {
  const one = new Histogram([1, 10]);
  expect(one.snapshot().p50).toBeNull();
  for (let i = 0; i < 5; i++) one.observe(4);
  expect([one.percentile(1), one.percentile(50), one.percentile(99)]).toEqual([4, 4, 4]);
  one.observe(8);
  expect(one.percentile(100)).toBe(8);
  expect(one.percentile(50)).toBeGreaterThan(4);
  expect(one.percentile(50)).toBeLessThan(8);
});
