/** Pages found again by what they hold, and given up in the order in which they were wanted. */

import { expect, test, vi } from "vitest";
import { NOTHING, PrefixPages } from "../../engine/prefix.ts";
import { Footprint } from "../../format/state.ts";

/** Pages of a model without windows. */
function pagesOf(pages: number, pageTokens: number, most = pages): PrefixPages {
  return new PrefixPages(pages, new Footprint([null], 0, pageTokens), most);
}

/** `count` tokens of a history named by a number. */
function history(name: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => 1000 * name + i);
}

/** Hold pages for a history and give them back full. */
function keep(memory: PrefixPages, tokens: readonly number[], prefilled = tokens.length): void {
  const lease = memory.acquire(tokens, tokens.length - 1, tokens.length);
  if (!lease) throw new Error("there is no room");
  memory.retire(tokens, lease.holding, prefilled);
}

function cachedOf(memory: PrefixPages, tokens: readonly number[]): number {
  return memory.writers(tokens).length;
}

/** How often maps and sets were asked, changed or walked on by one, and arrays sorted. */
function operations(run: () => void): number {
  const walked = [new Map().values(), new Set().values()].map((one) => Object.getPrototypeOf(one));
  const spied = [
    ...(["get", "set", "has", "delete"] as const).map((name) => vi.spyOn(Map.prototype, name)),
    ...(["add", "has", "delete"] as const).map((name) => vi.spyOn(Set.prototype, name)),
    ...walked.map((iterator) => vi.spyOn(iterator, "next")),
    vi.spyOn(Array.prototype, "sort"),
  ];
  try {
    run();
    return spied.reduce((sum, spy) => sum + spy.mock.calls.length, 0);
  } finally {
    for (const spy of spied) spy.mockRestore();
  }
}

test("full pages are found by all that came before them", () => {
  const memory = pagesOf(16, 16);
  const tokens = history(1, 56);
  keep(memory, tokens);
  expect([memory.cached, memory.free]).toEqual([3, 13]);
  expect(cachedOf(memory, tokens)).toBe(3);
  expect(cachedOf(memory, tokens.slice(0, 47))).toBe(2);
  expect(cachedOf(memory, tokens.slice(16))).toBe(0);
  expect(cachedOf(memory, [...history(2, 16), ...tokens.slice(16)])).toBe(0);
  expect(cachedOf(memory, tokens.with(20, 7))).toBe(1);
});

test("an adopted page is shared, and never more tokens than may be", () => {
  const memory = pagesOf(16, 16);
  const tokens = history(1, 48);
  keep(memory, tokens);
  const lease = memory.acquire(tokens, 47, 60);
  expect(lease).toMatchObject({ holding: { rows: [[0, 1, 3, 4]] }, cached: 32 });
  expect(memory.check([lease?.holding ?? NOTHING])).toEqual([]);
  memory.retire(tokens, lease?.holding ?? NOTHING, 48);
  expect([memory.cached, memory.free]).toEqual([3, 13]);
  expect(memory.check([])).toEqual([]);
  expect([memory.queriedTokens, memory.hitTokens]).toEqual([96, 32]);
});

test("the same pages twice are kept once", () => {
  const memory = pagesOf(16, 16);
  const tokens = history(1, 32);
  const first = memory.acquire(tokens, 31, 32);
  const second = memory.acquire(tokens, 31, 32);
  memory.retire(tokens, first?.holding ?? NOTHING, 32);
  memory.retire(tokens, second?.holding ?? NOTHING, 32);
  expect([memory.cached, memory.free]).toEqual([2, 14]);
  expect(memory.check([])).toEqual([]);
});

test("what nobody asked for longest goes first, the end of a history before its beginning", () => {
  const memory = pagesOf(8, 16);
  keep(memory, history(1, 64));
  keep(memory, history(2, 64));
  keep(memory, history(1, 64));
  keep(memory, history(3, 32));
  expect([1, 2, 3].map((name) => cachedOf(memory, history(name, 64)))).toEqual([4, 2, 2]);
  keep(memory, history(4, 48));
  expect([1, 2, 3, 4].map((name) => cachedOf(memory, history(name, 64)))).toEqual([3, 0, 2, 3]);
});

test("of the pages that may go those stay which somebody holds, or which others follow that stay", () => {
  const memory = pagesOf(16, 16);
  const fork = [...history(1, 32), ...history(2, 32)];
  for (const tokens of [history(1, 64), fork, history(3, 32)]) keep(memory, tokens);
  const held = memory.acquire(history(3, 32), 16, 32);
  const all = memory.resting;
  expect([all.length, memory.cached]).toEqual([7, 8]);
  const [, , second] = memory.after(0);
  expect(memory.letGo(new Set(all.filter((kept) => kept !== second)))).toBe(4);
  expect([history(1, 64), fork, history(3, 32)].map((one) => cachedOf(memory, one))).toEqual([
    3, 2, 1,
  ]);
  expect(memory.check([held?.holding ?? NOTHING])).toEqual([]);
  expect(memory.letGo(new Set(memory.resting))).toBe(3);
  expect(memory.cached).toBe(1);
  expect(memory.shrink(2)).toBe(Math.max(...(held?.holding.rows[0] ?? [])) + 1);
  memory.retire(history(3, 32), held?.holding ?? NOTHING, 32);
  expect(memory.check([])).toEqual([]);
});

test("pages that somebody holds are not given up, and nothing is where there are too few", () => {
  const memory = pagesOf(4, 16);
  const tokens = history(1, 48);
  keep(memory, tokens);
  const holder = memory.acquire(tokens, 32, 48);
  expect(memory.acquire(history(2, 40), 39, 40)).toBeNull();
  expect(cachedOf(memory, tokens)).toBe(3);
  expect(memory.check([holder?.holding ?? NOTHING])).toEqual([]);
  memory.retire(tokens, holder?.holding ?? NOTHING, 48);
  expect(memory.acquire(history(2, 40), 39, 40)?.holding.rows[0]).toHaveLength(3);
});

test("pages whose contents are in doubt are not kept", () => {
  const memory = pagesOf(4, 16);
  const lease = memory.acquire(history(1, 48), 47, 48);
  memory.discard(history(1, 48), lease?.holding ?? NOTHING);
  expect([memory.cached, memory.free]).toEqual([0, 4]);
});

test("what follows a page whose contents were in doubt is kept once", () => {
  const memory = pagesOf(6, 16);
  const tokens = history(1, 48);
  keep(memory, tokens);
  const whole = memory.acquire(tokens, 48, 48)?.holding ?? NOTHING;
  const doubtful = memory.acquire(tokens, 16, 20)?.holding ?? NOTHING;
  memory.discard(tokens.slice(0, 16), doubtful);
  memory.retire(tokens, whole, 48);
  expect(memory.check([])).toEqual([]);
  expect([memory.cached, memory.obtainable]).toEqual([3, 6]);
});

test("taking and giving back pages is the same work however many are kept", () => {
  const counts = [20, 200, 2000].map((pages) => {
    const memory = pagesOf(pages, 16);
    for (let name = 0; name < pages / 2 - 4; name++) keep(memory, history(name, 32));
    const held = memory.acquire(history(pages, 64), 63, 64)?.holding ?? NOTHING;
    return operations(() => {
      // The four that are free, and four that have to go for it; then all is given back.
      memory.extend(held, 8);
      memory.retire(history(pages, 70), held, 70);
      memory.acquire(history(pages, 70), 69, 70);
    });
  });
  expect(counts[0]).toBeGreaterThan(0);
  expect(counts).toEqual(counts.map(() => counts[0]));
});

test("a page says who wrote it", () => {
  const memory = pagesOf(8, 16);
  keep(memory, history(1, 64), 40);
  expect(memory.writers(history(1, 64))).toEqual(["prefill", "prefill", "decode", "decode"]);
});

test("pages hold as many tokens as is said", () => {
  const memory = pagesOf(8, 4);
  const tokens = history(1, 10);
  const lease = memory.acquire(tokens, 9, 18);
  expect(lease?.holding.rows[0]).toHaveLength(5);
  memory.retire(tokens, lease?.holding ?? NOTHING, 10);
  expect(cachedOf(memory, tokens)).toBe(2);
  expect(memory.acquire(tokens, 9, 10)).toMatchObject({
    holding: { rows: [[0, 1, 2]] },
    cached: 8,
  });
});

test("pages that are still to come are promised once, and come when they are needed", () => {
  const memory = pagesOf(3, 16, 8);
  keep(memory, history(1, 32));
  const first = memory.acquire(history(1, 40), 39, 100);
  expect(first).toMatchObject({ holding: { rows: [[0, 1]] }, cached: 32 });
  expect(memory.acquire(history(2, 10), 9, 30, 5)).toBeNull();
  const second = memory.acquire(history(2, 10), 9, 16, 5);
  expect(second).toMatchObject({ holding: { rows: [[2]] }, cached: 0 });
  expect(memory.obtainable).toBe(0);
  memory.grow(8);
  const all = first?.holding ?? NOTHING;
  memory.extend(all, 5);
  expect(all.rows).toEqual([[0, 1, 3, 4, 5, 6, 7]]);
  expect(memory.check([all, second?.holding ?? NOTHING])).toEqual([]);
});
