/** Pages of models with windows: what lies behind them is given back, and found until its room is needed. */

import { describe, expect, test } from "vitest";
import { NOTHING, PrefixPages } from "../../engine/prefix.ts";
import { Footprint, footprintOf } from "../../format/state.ts";
import { FULL } from "../suite.ts";
import { Random } from "./random.ts";
import { model } from "./reference-bundle.ts";
import { Machine } from "./window-machine.ts";

const SEEDS = FULL ? 60 : 3;
const KINDS: readonly (readonly (number | null)[])[] = [
  [null],
  [null, 11],
  [null, 1, 6],
  [9],
  [5, 16],
  [null, null, 8],
];

describe.each(KINDS.map((windows) => [windows]))("with the windows %j", (windows) => {
  const sums = { left: 0, found: 0, forked: 0, restored: 0, refused: 0 };

  test.each(Array.from({ length: SEEDS }, (_, seed) => seed))(
    "everybody finds what he should, in the order of seed %i",
    (seed) => {
      const machine = new Machine(new Random(100 + seed), windows);
      machine.run(FULL ? 1500 : 300);
      for (const name of Object.keys(sums) as (keyof typeof sums)[]) {
        sums[name] += machine.counts[name];
      }
    },
  );

  test("and all of it has happened", () => {
    const { left, ...others } = sums;
    expect(Math.min(...Object.values(others))).toBeGreaterThan(0);
    expect(left > 0).toBe(windows.some((window) => window !== null));
  });
});

const FOOTPRINT = new Footprint([null, 32], 32, 16);
const history = (name: number, count: number) =>
  Array.from({ length: count }, (_, i) => 1000 * name + i);

/** Let a sequence of these tokens go through memory, some at a time; what it holds in the end, and the most on the way. */
function through(memory: PrefixPages, tokens: readonly number[], chunk = 16) {
  const { holding, cached } = memory.acquire(tokens, tokens.length - 1, tokens.length) ?? {
    holding: NOTHING,
    cached: -1,
  };
  let most = 0;
  for (let written = cached; written < tokens.length; written += chunk) {
    const end = Math.min(written + chunk, tokens.length);
    const more = Math.ceil(end / 16) - (holding.rows[0]?.length ?? 0);
    memory.leave(holding, written, () => tokens.slice(0, written), tokens.length);
    memory.extend(holding, Math.max(more, 0));
    most = Math.max(most, memory.size - memory.obtainable);
  }
  return { holding, cached, most };
}

function keep(memory: PrefixPages, tokens: readonly number[]): number {
  const { holding, cached } = through(memory, tokens);
  memory.retire(tokens, holding, tokens.length);
  expect(memory.check([])).toEqual([]);
  return cached;
}

describe("a sequence", () => {
  test("gives back what lies behind the window of its next token", () => {
    const memory = new PrefixPages(64, FOOTPRINT);
    const { holding } = through(memory, history(1, 160));
    // The last pages came when 144 tokens were known, whose next sees those from 113 on.
    expect(holding.rows.map((row) => row.filter((page) => page >= 0).length)).toEqual([10, 3]);
    expect(memory.check([holding])).toEqual([]);
  });

  test("begins with fewer pages than there are where its window is not there", () => {
    const memory = new PrefixPages(16, FOOTPRINT);
    expect(keep(memory, history(1, 128))).toBe(0);
    // All 8 of the first group, 8 of the second: those given back go first.
    expect([memory.cached, memory.free]).toEqual([16, 0]);
    expect(memory.adoptable(history(1, 128), 64)).toBe(4);
    expect(keep(memory, history(2, 32))).toBe(0);
    expect(memory.adoptable(history(1, 128), 64)).toBe(0);
    expect(memory.adoptable(history(1, 128), 128)).toBe(8);
  });

  test("gives up what was left behind before what others have rested on for longer", () => {
    const memory = new PrefixPages(20, FOOTPRINT);
    keep(memory, history(2, 32));
    keep(memory, history(1, 128));
    expect([memory.cached, memory.free]).toEqual([20, 0]);
    keep(memory, history(3, 32));
    expect(memory.adoptable(history(2, 32), 32)).toBe(2);
    expect(memory.adoptable(history(1, 128), 128)).toBe(8);
  });

  test("keeps for others what one has begun with before", () => {
    const memory = new PrefixPages(18, FOOTPRINT);
    keep(memory, history(1, 64));
    const longer = [...history(1, 64), ...history(2, 64)];
    expect(keep(memory, longer)).toBe(64);
    keep(memory, history(3, 32));
    expect(memory.adoptable(longer, 127)).toBe(7);
    expect(memory.adoptable(history(1, 64), 64)).toBe(4);
  });

  test("finds what one that goes on has left behind, with what that still holds", () => {
    const memory = new PrefixPages(64, FOOTPRINT);
    const { holding } = through(memory, history(1, 160));
    const other = memory.acquire(history(1, 70), 69, 70);
    expect(other?.cached).toBe(64);
    expect(memory.check([holding, other?.holding ?? NOTHING])).toEqual([]);
  });

  test("that shares a page of a window may have to get another for it", () => {
    const memory = new PrefixPages(64, FOOTPRINT);
    keep(memory, history(1, 64));
    const one = () => memory.acquire(history(1, 65), 64, 300)?.holding ?? NOTHING;
    const first = one();
    // 15 of the first group; of the other 5 at most, of which it has 2.
    expect(memory.owed(first, 300)).toBe(15 + 5 - 2);
    const second = one();
    expect([first, second].map((each) => memory.owed(each, 300))).toEqual([20, 20]);
    memory.discard([], second);
    expect(memory.owed(first, 300)).toBe(18);
  });

  test("that fails takes with it what it has given back", () => {
    const memory = new PrefixPages(64, FOOTPRINT);
    const { holding } = through(memory, history(1, 160));
    expect(memory.adoptable(history(1, 160), 144)).toBe(9);
    memory.discard(history(1, 160), holding);
    expect([memory.cached, memory.free]).toEqual([0, 64]);
    expect(memory.check([])).toEqual([]);
  });
});

test("a model of one group without a window needs what it always has", () => {
  const footprint = footprintOf(model({ pages: 1 }));
  expect([1, 16, 17, 8192].map((tokens) => footprint.pages(tokens))).toEqual([1, 1, 2, 512]);
  expect(footprint.tokens(100, 8192)).toBe(1600);
  expect(footprint.tokens(600, 8192)).toBe(8192);
});

test("8,192 tokens of a model like Gemma 3 take a third of its pages, and half of that when they are read", () => {
  const windows = [null, ...new Array<number>(6).fill(1024)];
  const footprint = footprintOf(model({ pages: 1, context: 8192, prefillChunk: 512, windows }));
  // 512 of the first group, and of each other what 1,023 tokens and two chunks touch.
  expect(footprint.pages(8192)).toBe(512 + 6 * 129);
  const memory = new PrefixPages(footprint.pages(8192), footprint);
  const { holding, most } = through(memory, history(1, 8192), 512);
  // Where each chunk is known before the next: 1,023 tokens and one chunk.
  expect(most).toBe(512 + 6 * 96);
  expect(memory.check([holding])).toEqual([]);
  expect(most).toBeLessThan(0.31 * 7 * 512);
  memory.leave(holding, 8192, () => history(1, 8192), 8192);
  expect(memory.size - memory.obtainable).toBe(512 + 6 * 64);
});
