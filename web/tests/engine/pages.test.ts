/** The page pool: no page is lost, doubled or freed while owned, whatever happens to it. */

import { describe, expect, test } from "vitest";
import { PagePool } from "../../engine/pages.ts";
import { pagesFor } from "../../format/state.ts";
import { Random } from "./random.ts";

const PAGES = 12;
const refused = expect.objectContaining({ code: "input.pages" });

function counted(owned: readonly (readonly number[])[]): number[] {
  const all = owned.flat();
  return Array.from({ length: PAGES }, (_, page) => all.filter((p) => p === page).length);
}

describe.each([1, 2, 3, 4, 5])("a pool driven at random (seed %i)", (seed) => {
  test("has the owners that a list of owners has", () => {
    const random = new Random(seed);
    const pool = new PagePool(PAGES);
    const owned: number[][] = [];
    const rules: (() => void)[] = [
      () => {
        const k = random.whole(0, PAGES + 2);
        if (k > pool.free) {
          expect(() => pool.allocate(k)).toThrow(refused);
          return;
        }
        const lowest = Array.from({ length: PAGES }, (_, page) => page)
          .filter((page) => pool.owners(page) === 0)
          .slice(0, k);
        const taken = pool.allocate(k);
        expect(taken).toEqual(lowest);
        owned.push(taken);
      },
      () => {
        if (owned.length === 0) return;
        const part = random.pick(owned).slice(0, random.whole(0, PAGES));
        pool.share(part);
        owned.push(part);
      },
      () => {
        if (owned.length === 0) return;
        const [gone] = owned.splice(random.whole(0, owned.length - 1), 1);
        pool.release(gone ?? []);
      },
      () => {
        const page = random.whole(-2, PAGES + 2);
        const owners = owned.flat().filter((p) => p === page).length;
        expect(() => pool.release(new Array<number>(owners + 1).fill(page))).toThrow(refused);
      },
      () => {
        const page = random.whole(-2, PAGES + 2);
        const held = owned.flat();
        if (!held.includes(page)) expect(() => pool.share([...held, page])).toThrow(refused);
      },
      () => {
        const least = random.whole(0, PAGES);
        expect(pool.shrink(least)).toBe(Math.max(1, least, ...owned.flat().map((p) => p + 1)));
        expect(pool.check()).toEqual([]);
        pool.grow(PAGES);
      },
    ];
    for (let i = 0; i < 400; i++) {
      random.pick(rules)();
      const counts = counted(owned);
      expect(counts.map((_, page) => pool.owners(page))).toEqual(counts);
      expect(pool.free).toBe(counts.filter((count) => count === 0).length);
      expect(pool.check()).toEqual([]);
    }
  });
});

test("a pool needs pages", () => {
  expect(new PagePool(3).size).toBe(3);
  for (const n of [0, -1, 1.5, Number.NaN]) expect(() => new PagePool(n)).toThrow(refused);
});

test.each([
  [0, 0],
  [1, 1],
  [16, 1],
  [17, 2],
  [32, 2],
])("%i tokens fill %i pages", (tokens, pages) => {
  expect(pagesFor(tokens, 16)).toBe(pages);
  expect(pagesFor(tokens, 1)).toBe(tokens);
});

test("a pool grows by pages that are free, and hands out the lowest first as before", () => {
  const pool = new PagePool(3);
  const held = pool.allocate(2);
  pool.grow(5);
  expect([pool.size, pool.free, pool.check()]).toEqual([5, 3, []]);
  expect(held.map((page) => pool.owners(page))).toEqual([1, 1]);
  expect(pool.allocate(3)).toEqual([2, 3, 4]);
  pool.grow(4);
  expect([pool.size, pool.free]).toEqual([5, 0]);
});
