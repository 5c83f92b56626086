import { expect, it } from "vitest";
import { numberAfter, some } from "../../selftest/references.ts";

it("reads numbers as kernels' names spell them", () => {
  expect(numberAfter("rms_norm_512x256_e1p000em05_s", /_e(\d+p\d+em?\d+)/)).toBe(1e-5);
  expect(numberAfter("matvec_q4_store_n1em06_512x256", /_n(\d+(?:p\d+)?(?:em?\d+)?)_/)).toBe(1e-6);
  expect(numberAfter("attention_prefill_float16_0p125", /_float16_(\d+p\d+)/)).toBe(0.125);
  expect(numberAfter("matvec_q4_store_512x256", /_n(\d+)_/)).toBeNull();
});

it("checks the first, a middle and the last row", () => {
  expect(some(24)).toEqual([0, 12, 23]);
  expect(some(2)).toEqual([0, 1]);
  expect(some(1)).toEqual([0]);
  expect(some(512, 6)).toHaveLength(6);
});
