/**
 * Page bookkeeping driven at random, beside what pages really hold: whoever is given one finds in it what it is said to
 * hold, nobody's pages change under them, and what was promised can be had. What has no owner any more holds nothing.
 */

import { expect, vi } from "vitest";
import { PagePool } from "../../engine/pages.ts";
import { GONE, type Holding, PrefixPages } from "../../engine/prefix.ts";
import type { KeptPlace } from "../../engine/rack.ts";
import { Footprint, pagesFor } from "../../format/state.ts";
import type { Random } from "./random.ts";

export const PAGE = 4;
const CONTEXT = 96;

/** A sequence: all its tokens, how many are in pages, and of how many that is known. */
interface Going {
  readonly tokens: readonly number[];
  readonly prompt: number;
  readonly holding: Holding;
  computed: number;
  landed: number;
}

export class Machine {
  /** How often pages were given back, found again, and forked. */
  readonly counts = { left: 0, found: 0, forked: 0, restored: 0, refused: 0 };
  private readonly random: Random;
  private readonly footprint: Footprint;
  private readonly memory: PrefixPages;
  /** By page, of which group and history it holds the last tokens. */
  private readonly contents = new Map<number, string>();
  private readonly histories: number[][] = [];
  private going: Going[] = [];

  constructor(random: Random, windows: readonly (number | null)[]) {
    this.random = random;
    this.footprint = new Footprint(windows, random.pick([4, 8, 12]), PAGE);
    const one = this.footprint.pages(CONTEXT);
    const most = random.whole(one, 3 * one);
    this.memory = new PrefixPages(random.whole(1, most), this.footprint, most);
  }

  /** Do so many things. */
  run(steps: number): void {
    const { release, allocate } = PagePool.prototype;
    const { contents } = this;
    const spies = [
      vi.spyOn(PagePool.prototype, "release").mockImplementation(function (this: PagePool, pages) {
        release.call(this, pages);
        for (const page of pages) if (this.owners(page) === 0) contents.delete(page);
      }),
      vi.spyOn(PagePool.prototype, "allocate").mockImplementation(function (this: PagePool, count) {
        const taken = allocate.call(this, count);
        for (const page of taken) expect(contents.has(page)).toBe(false);
        return taken;
      }),
    ];
    try {
      for (let i = 0; i < steps; i++) this.step();
      while (this.going.length > 0) this.end();
      expect(this.memory.obtainable).toBe(this.memory.size);
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
  }

  private step(): void {
    const rules: readonly [number, () => void][] = [
      [3, () => this.begin()],
      [9, () => this.compute()],
      [4, () => this.land()],
      [1.5, () => this.end()],
      [0.3, () => this.fail()],
      [3, () => this.fork()],
      [1, () => this.restore()],
      [0.3, () => this.letGo()],
      [0.2, () => this.exhaust()],
    ];
    let at = this.random.next() * rules.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, rule] of rules) {
      at -= weight;
      if (at > 0) continue;
      rule();
      break;
    }
    this.check();
  }

  private begin(): void {
    const { random, memory } = this;
    const known =
      this.histories.length > 0 && random.chance(0.8) ? random.pick(this.histories) : [];
    const begun = known.slice(0, random.whole(0, known.length));
    const prompt = [...begun, ...this.some(random.whole(1, 20))].slice(0, CONTEXT - 8);
    const tokens = [...prompt, ...this.some(random.whole(0, 60))].slice(0, CONTEXT);
    const adoptable = prompt.length - 1;
    const longest = this.longest(prompt, Math.floor(adoptable / PAGE));
    expect(memory.adoptable(prompt, adoptable)).toBe(longest);
    const lease = memory.acquire(prompt, adoptable, tokens.length, this.promised);
    if (!lease) {
      this.counts.refused += 1;
      return;
    }
    const { holding, cached } = lease;
    expect(cached).toBe(longest * PAGE);
    this.counts.found += cached;
    this.histories.push(tokens);
    this.go({ tokens, prompt: prompt.length, holding, computed: cached, landed: cached });
  }

  /** All go on to their end, as many tokens at once as may be, before anybody gives up his pages. */
  private exhaust(): void {
    for (const one of this.going) {
      while (one.computed < one.tokens.length) {
        this.compute(one, this.footprint.step);
        one.landed = one.computed;
      }
    }
  }

  /** Hand over some tokens: their pages are there, and each sees what it should. */
  private compute(
    one = this.anyone((going) => going.computed < going.tokens.length),
    count = this.random.whole(1, this.footprint.step),
  ): void {
    const { memory, footprint } = this;
    if (!one) return;
    const end = Math.min(one.computed + count, one.landed + footprint.step, one.tokens.length);
    const more = pagesFor(end, PAGE) - (one.holding.rows[0]?.length ?? 0);
    if (more > 0) {
      const held = one.holding.rows.flat().filter((page) => page !== GONE).length;
      memory.leave(one.holding, one.landed, () => one.tokens.slice(0, one.landed), one.prompt);
      this.counts.left += held - one.holding.rows.flat().filter((page) => page !== GONE).length;
      const missing = more * footprint.windows.length - memory.obtainable;
      if (missing > 0) memory.grow(memory.size + missing);
      expect(memory.size).toBeLessThanOrEqual(memory.most);
      memory.extend(one.holding, more);
    }
    for (; one.computed < end; one.computed++) {
      this.look(one, one.computed);
      const nth = Math.floor(one.computed / PAGE);
      for (const [group, row] of one.holding.rows.entries()) {
        this.contents.set(row[nth] ?? GONE, label(group, one.tokens, one.computed + 1));
      }
    }
  }

  /** The token at a position sees what its windows say, and nothing else. */
  private look({ tokens, holding }: Going, position: number): void {
    for (const [group, row] of holding.rows.entries()) {
      const window = this.footprint.windows[group] ?? null;
      const first = window === null ? 0 : Math.max(position - window + 1, 0);
      for (let nth = Math.floor(first / PAGE); nth * PAGE < position; nth++) {
        const end = Math.min((nth + 1) * PAGE, position);
        expect(this.contents.get(row[nth] ?? GONE)).toBe(label(group, tokens, end));
      }
    }
  }

  private land(): void {
    const one = this.anyone();
    if (one) one.landed = one.computed;
  }

  private end(): void {
    const one = this.anyone();
    if (!one) return;
    this.memory.retire(one.tokens.slice(0, one.landed), one.holding, one.prompt);
    this.going = this.going.filter((other) => other !== one);
  }

  private fail(): void {
    const one = this.anyone();
    if (!one) return;
    const tokens = one.tokens.slice(0, one.landed);
    this.memory.discard(tokens, one.holding);
    if (this.footprint.bounded) expect(this.memory.adoptable(tokens, tokens.length)).toBe(0);
    this.going = this.going.filter((other) => other !== one);
  }

  private fork(): void {
    const { random, memory } = this;
    const from = this.anyone((going) => going.landed >= going.prompt);
    const shared = from ? Math.floor((from.prompt - 1) / PAGE) : 0;
    if (!from || !memory.canFork(from.holding, shared)) return;
    const prompt = from.tokens.slice(0, from.prompt);
    const tokens = [...prompt, ...this.some(random.whole(0, 60))].slice(0, CONTEXT);
    const lease = memory.fork(from.holding, shared, prompt.length, tokens.length, this.promised);
    if (!lease) return;
    this.counts.forked += 1;
    const { holding, cached } = lease;
    this.histories.push(tokens);
    this.go({ tokens, prompt: prompt.length, holding, computed: cached, landed: cached });
  }

  /** Some of what a history lacks comes from elsewhere. */
  private restore(): void {
    const { random, memory } = this;
    if (this.histories.length === 0) return;
    const tokens = random.pick(this.histories);
    const count = random.whole(0, Math.floor(tokens.length / PAGE));
    const wanted = memory.lacks(tokens, count).slice(0, random.whole(0, 40));
    const held = new Set(memory.after(0));
    const placed = memory.place(tokens, count, wanted);
    expect(placed.length).toBeLessThanOrEqual(wanted.length);
    for (const [at, kept] of placed.entries()) {
      const { nth, group } = wanted[at] ?? { nth: -1, group: -1 };
      if (!kept) throw new Error("it was lacking");
      expect([kept.group, held.has(kept)]).toEqual([group, false]);
      this.contents.set(kept.page, label(group, tokens, (nth + 1) * PAGE));
    }
    this.counts.restored += placed.length;
    if (memory.lacks(tokens, count).length > 0) return;
    expect(memory.adoptable(tokens, count * PAGE)).toBe(count);
  }

  private letGo(): void {
    const { random, memory } = this;
    memory.letGo(new Set(memory.resting.filter(() => random.chance(0.5))));
    memory.shrink(random.whole(1, memory.size));
  }

  private go(one: Going): void {
    this.going.push(one);
    if (one.computed > 0) this.look(one, one.computed);
  }

  private anyone(which: (going: Going) => boolean = () => true): Going | null {
    const some = this.going.filter(which);
    return some.length > 0 ? this.random.pick(some) : null;
  }

  private some(count: number): number[] {
    return Array.from({ length: count }, () => this.random.whole(0, 3));
  }

  private get promised(): number {
    const owed = this.going.map(({ holding, tokens }) => this.memory.owed(holding, tokens.length));
    return owed.reduce((sum, count) => sum + count, 0);
  }

  /** With how many pages a sequence can begin at most, by what the index has. */
  private longest(tokens: readonly number[], most: number): number {
    const { windows } = this.footprint;
    const here = new Set(this.memory.after(0).map(({ page }) => this.contents.get(page)));
    const sees = (count: number) =>
      windows.every((window, group) => {
        for (let nth = 0; nth < count; nth++) {
          const seen = window === null || (nth + 1) * PAGE - 1 > count * PAGE - window;
          if (seen && !here.has(label(group, tokens, (nth + 1) * PAGE))) return false;
        }
        return true;
      });
    for (let count = most; count > 0; count--) if (sees(count)) return count;
    return 0;
  }

  private check(): void {
    const { memory } = this;
    expect(memory.check(this.going.map(({ holding }) => holding))).toEqual([]);
    // Whatever comes, nobody waits for pages that cannot be had.
    expect(this.promised).toBeLessThanOrEqual(memory.obtainable + memory.most - memory.size);
    for (const { page, group, place } of memory.after(0)) {
      const tokens = historyOf(place);
      expect(this.contents.get(page)).toBe(label(group, tokens, tokens.length));
    }
    for (const one of this.going) this.look(one, one.computed);
  }
}

function historyOf({ before, tokens }: KeptPlace): number[] {
  return [...(before ? historyOf(before) : []), ...tokens];
}

function label(group: number, tokens: readonly number[], end: number): string {
  return `${group}:${tokens.slice(0, end).join("")}`;
}
