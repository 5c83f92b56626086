import { expect, it } from "vitest";
import { type Asked, drawnFrom, philox } from "../../selftest/drawing.ts";

const PLAIN: Asked = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: [7, 0],
  sequence: 0,
};
const LOGITS = [0, 1, 3, -2, 2, 2];

function drawn(changes: Partial<Asked>, draws = 400): Set<number> {
  const all = new Set<number>();
  for (let at = 0; at < draws; at++) {
    for (const token of drawnFrom(LOGITS, { ...PLAIN, ...changes }, at)) all.add(token);
  }
  return all;
}

it("has the random bits of the paper's authors", () => {
  expect(philox([0, 0, 0, 0], [0, 0])).toBe(0x6627e8d5);
  expect(philox([0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff], [0xffffffff, 0xffffffff])).toBe(
    0x408f276d,
  );
});

it("draws every token, and of filtered ones none", () => {
  expect(drawn({})).toEqual(new Set([0, 1, 2, 3, 4, 5]));
  expect(drawn({ topK: 1 })).toEqual(new Set([2]));
  expect(drawn({ topK: 2 })).toEqual(new Set([2, 4]));
  expect(drawn({ topP: 0.6 })).toEqual(new Set([2, 4]));
  expect(drawn({ minP: 0.2 })).toEqual(new Set([2, 4, 5]));
});

it("names one token nearly always", () => {
  const counts = Array.from({ length: 200 }, (_, at) => drawnFrom(LOGITS, PLAIN, at).size);
  expect(counts.filter((size) => size === 1).length).toBeGreaterThan(195);
  expect(Math.min(...counts)).toBe(1);
});
