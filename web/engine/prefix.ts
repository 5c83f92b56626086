/**
 * Pages of KV memory and what is known about their contents: a prompt that begins as an earlier
 * one did adopts the pages that are there.
 *
 * The index owns full pages of sequences that have ended. A page is found by what comes before it and
 * its own token ids, so what is found is exactly the same history. The pages that were not asked
 * for longest go first when memory is needed; a page always outlives those that follow it.
 *
 * Each state group has pages of its own for the same tokens, all of one pool. Of a group with a window a sequence gives
 * back, while it runs, what lies behind the window of its next token: the index owns it from then on, and it goes before
 * all others. N tokens of a prompt come from pages where groups without a window have them all and each other group has
 * those that token N sees (as vLLM's hybrid KV cache manager finds the longest hit of several groups).
 */

import { type Footprint, pagesFor } from "../format/state.ts";
import { type Entry, type Kept, type Place, Rack, type Writer } from "./rack.ts";

/** Instead of a page that was given back, or was never needed: it lies behind a window. */
export const GONE = -1;

/** A page that a history needs: of its nth tokens, and of which state group. */
export interface Wanted {
  readonly nth: number;
  readonly group: number;
}

/** What a sequence holds. */
export interface Holding {
  /** Its pages in order, a row for each state group; `GONE` stands for those behind a window. */
  readonly rows: readonly number[][];
  /** How many of its first pages others may find while it holds them, and where the last of them is. */
  known: number;
  at: Place | null;
}

/** What a sequence holds that has been given nothing. */
export const NOTHING: Holding = { rows: [], known: 0, at: null };

/** Of how many pages of tokens, in order, what it holds is. */
export function placesOf({ rows: [row] }: Holding): number {
  return row?.length ?? 0;
}

/** What a sequence begins with, and how many tokens are in that already. */
export interface Lease {
  readonly holding: Holding;
  readonly cached: number;
}

export class PrefixPages {
  /** Tokens of all prompts that were looked up, and those of them that were found. */
  queriedTokens = 0;
  hitTokens = 0;
  /** Pages that there may be in the end. */
  most: number;
  private readonly rack: Rack;
  private readonly footprint: Footprint;
  private readonly pageTokens: number;
  private readonly windows: Footprint["windows"];

  /**
   * @param pages that there are.
   * @param footprint what sequences need of them.
   * @param most pages that there may be, once it has grown.
   */
  constructor(pages: number, footprint: Footprint, most = pages) {
    this.rack = new Rack(pages, footprint.windows.length, footprint.pageTokens);
    this.most = most;
    this.footprint = footprint;
    this.pageTokens = footprint.pageTokens;
    this.windows = footprint.windows;
  }

  /** Pages in all. */
  get size(): number {
    return this.rack.pool.size;
  }

  /** Pages that hold nothing. */
  get free(): number {
    return this.rack.pool.free;
  }

  /** Pages that are free, or that nobody but the index holds. */
  get obtainable(): number {
    return this.rack.obtainable;
  }

  /** Pages of the index. */
  get cached(): number {
    return this.rack.byPage.size;
  }

  /**
   * Pages for `total` tokens that begin with `tokens`, or null where there are too few even in the
   * end. Those that are adopted only where too few are free now, or sequences give pages back as they go on: the others
   * come with `extend`.
   *
   * @param adoptable most tokens that come from pages that are there.
   * @param promised pages that others have yet to get.
   */
  acquire(tokens: readonly number[], adoptable: number, total: number, promised = 0): Lease | null {
    const found = this.find(tokens, adoptable);
    const adopted = this.seen(found, found.length);
    const mine = adopted.filter((entry) => this.rack.isIdle(entry));
    const alone = (group: number) => mine.filter((entry) => entry.group === group).length;
    const needed = this.yetToGet(found.length, alone, total);
    // Who holds one of these no longer holds it alone, and may have to get another in its place.
    const instead = adopted.filter(
      (one) => this.windows[one.group] !== null && !this.rack.isIdle(one),
    );
    const room = this.obtainable - mine.length + this.most - this.rack.pool.size;
    if (room < needed + instead.length + promised) return null;
    this.rack.adopt(adopted);
    const rows = this.rowsOf(found.length, (group, nth) => found[nth]?.pages[group]?.page);
    return this.lease(rows, needed, tokens.length);
  }

  /**
   * Pages for `total` tokens that begin with the first `shared` pages of another lease, all of which are full: nobody
   * writes to them any more; where it `canFork`. Null as of `acquire`.
   *
   * @param asked tokens of the prompt.
   */
  fork(
    { rows: from }: Holding,
    shared: number,
    asked: number,
    total: number,
    promised = 0,
  ): Lease | null {
    const rows = this.rowsOf(shared, (group, nth) => from[group]?.[nth]);
    const pages = rows.map((row) => row.filter((page) => page !== GONE));
    const needed = this.yetToGet(shared, () => 0, total);
    const instead = pages.filter((_, group) => this.windows[group] !== null).flat(); // as in `acquire`
    const room = this.obtainable + this.most - this.rack.pool.size;
    if (room < needed + instead.length + promised) return null;
    this.rack.pool.share(pages.flat());
    return this.lease(rows, needed, asked);
  }

  /** Whether a lease still has all of its first `shared` pages that the token after them sees. */
  canFork({ rows }: Holding, shared: number): boolean {
    return rows.every(
      (row, group) => !row.slice(0, shared).includes(GONE, this.first(group, shared)),
    );
  }

  /** More pages of each group for a lease, of those that are `obtainable`. */
  extend({ rows }: Holding, more: number): void {
    this.rack.makeRoom(more * rows.length);
    for (const row of rows) row.push(...this.rack.pool.allocate(more));
  }

  /**
   * Give back what lies behind the windows of a sequence's next token. Others can find it until its room is needed.
   *
   * @param tokens what is in its pages for sure, in order; the first `prefilled` were written by prefill.
   */
  leave(holding: Holding, count: number, tokens: () => readonly number[], prefilled: number): void {
    if (!this.footprint.bounded) return;
    const { rows } = holding;
    const ends = rows.map(({ length }, group) => Math.min(this.behind(group, count), length));
    if (!rows.some((row, group) => (row[(ends[group] ?? 0) - 1] ?? GONE) !== GONE)) return;
    this.publish(holding, tokens(), prefilled);
    for (const [group, row] of rows.entries()) {
      const end = ends[group] ?? 0;
      let start = end;
      while (start > 0 && row[start - 1] !== GONE) start -= 1;
      for (const page of row.splice(start, end - start, ...gone(end - start))) {
        this.rack.leave(page);
      }
    }
  }

  /** Pages that a sequence has yet to get, at most, beside those that it holds alone, for so many tokens. */
  owed(holding: Holding, total: number): number {
    const { rows } = holding;
    const alone = (group: number) => {
      const row = rows[group] ?? [];
      let count = 0;
      for (let nth = row.length - 1; nth >= 0; nth--) {
        const page = row[nth] ?? GONE;
        if (page === GONE) break;
        if (this.rack.holders(page) === 1) count += 1;
      }
      return count;
    };
    return this.yetToGet(placesOf(holding), alone, total);
  }

  /** Have so many pages in all. */
  grow(pages: number): void {
    this.rack.pool.grow(pages);
  }

  /** Have so few pages, or as many more as what is in them asks for: how many there are then. There may be as many as before. */
  shrink(least: number): number {
    return this.rack.pool.shrink(least);
  }

  /** The pages that nobody holds, those first that were not used for longest: who follows another is before it. */
  get resting(): readonly Kept[] {
    return this.rack.resting;
  }

  /** Let go of those of these pages that nobody holds and, without a window, that no page which stays follows; how many that were. */
  letGo(pages: ReadonlySet<Kept>): number {
    const followers = new Map<number, number>();
    const count = ({ place: { before }, group }: Entry, more: number) => {
      if (!before || this.windows[group] !== null) return;
      followers.set(before.id, (followers.get(before.id) ?? 0) + more);
    };
    for (const entry of this.rack.byPage.values()) count(entry, 1);
    const before = this.rack.byPage.size;
    for (const entry of this.rack.resting) {
      const needed = this.windows[entry.group] === null && (followers.get(entry.place.id) ?? 0) > 0;
      if (!pages.has(entry) || needed) continue;
      this.rack.forget(entry);
      count(entry, -1);
    }
    return before - this.rack.byPage.size;
  }

  /**
   * Take back the pages of a sequence, and keep the full ones.
   *
   * @param tokens what is in them, in order; the first `prefilled` were written by prefill.
   */
  retire(tokens: readonly number[], holding: Holding, prefilled: number): void {
    const { rows } = holding;
    const full = Math.min(Math.floor(tokens.length / this.pageTokens), rows[0]?.length ?? 0);
    const kept: Entry[] = [];
    let place: Place | null = null;
    for (let nth = 0; nth < full; nth++) {
      place = this.rack.reach(place, tokens, nth);
      for (const [group, row] of rows.entries()) {
        const page = row[nth] ?? GONE;
        if (page === GONE) continue;
        const known = place.pages[group];
        if (known) this.rack.pool.release([page]); // the sequence's own copy, or its share of this one
        kept.push(known ?? this.rack.enter(place, group, page, this.writerOf(nth, prefilled)));
      }
    }
    for (const row of rows) this.rack.pool.release(row.slice(full));
    this.follow(holding, null, 0);
    if (place) this.rack.prune(place);
    this.rack.rest(kept);
  }

  /**
   * Take back the pages of a sequence whose contents are in doubt: nobody finds them any more, nor those that it has
   * given back, nor what follows any of them.
   *
   * @param tokens what should be in them.
   */
  discard(tokens: readonly number[], holding: Holding): void {
    const pages = holding.rows.flat().filter((page) => page !== GONE);
    const entries = pages.map((page) => this.rack.byPage.get(page));
    const left = this.footprint.bounded
      ? this.rack.chain(tokens).flatMap((place) => place.pages)
      : [];
    this.drop([...entries, ...left].filter((entry) => entry !== undefined));
    this.rack.pool.release(pages);
    this.follow(holding, null, 0);
  }

  /** How many pages a prompt would adopt. */
  adoptable(tokens: readonly number[], adoptable: number): number {
    return this.find(tokens, adoptable).length;
  }

  /** How many pages more there would have to be for so many others, if what is here of these histories is to stay. */
  missing(count: number, histories: readonly (readonly number[])[]): number {
    if (count <= this.free) return 0;
    const here = histories.flatMap((tokens) =>
      this.rack.chain(tokens).flatMap(({ pages }) => pages),
    );
    const stay = new Set(here.filter((entry) => entry && this.rack.isIdle(entry)));
    return Math.max(0, count - (this.obtainable - stay.size));
  }

  /** Whether sequences give pages back as they go on. */
  get bounded(): boolean {
    return this.footprint.bounded;
  }

  /** The pages that are not here of those that a sequence needs to begin with the first `count` of a history. */
  lacks(tokens: readonly number[], count: number): Wanted[] {
    return this.missingOf(this.rack.chain(tokens), count);
  }

  /**
   * Pages for what is kept elsewhere of a history: as many as can be had without those that a sequence needs to begin
   * with the first `count`, and of a group without a window those only that what is before them is there, too. Null
   * stands for one that is here. They are found from now on: they have to be written before anything else is submitted.
   */
  place(tokens: readonly number[], count: number, wanted: readonly Wanted[]): (Kept | null)[] {
    const before = this.rack.chain(tokens);
    const kept = this.seen(before.slice(0, count), count);
    this.rack.rest(kept);
    const lacking = wanted.filter(({ nth, group }) => !before[nth]?.pages[group]).length;
    const mine = kept.filter((entry) => this.rack.isIdle(entry)).length;
    let room = Math.min(lacking, this.obtainable - mine);
    this.rack.makeRoom(room);
    const chain: Place[] = [];
    const placed: (Entry | null)[] = [];
    for (const { nth, group } of wanted) {
      while (chain.length <= nth)
        chain.push(this.rack.reach(chain.at(-1) ?? null, tokens, chain.length));
      const place = chain[nth];
      const follows = this.windows[group] === null && nth > 0;
      if (!place || (follows && !chain[nth - 1]?.pages[group])) break;
      if (place.pages[group]) {
        placed.push(null);
        continue;
      }
      if (room === 0) break;
      room -= 1;
      const [page = GONE] = this.rack.pool.allocate(1);
      placed.push(this.rack.enter(place, group, page, "prefill"));
    }
    const last = chain.at(-1);
    if (last) this.rack.prune(last);
    this.rack.rest([...kept, ...placed.filter((entry) => entry !== null)]);
    return placed;
  }

  /** The pages that came to be kept after the one of that id, in this order. */
  after(id: number): readonly Kept[] {
    return [...this.rack.byPage.values()].filter((entry) => entry.id > id);
  }

  /** Nobody finds these any more, nor what follows them. */
  drop(kept: readonly Kept[]): void {
    this.rack.drop(kept);
  }

  /** Whether a page is still here. */
  keeps({ id, page }: Kept): boolean {
    return this.rack.byPage.get(page)?.id === id;
  }

  /** Who wrote the pages that a prompt of these tokens would adopt. */
  writers(tokens: readonly number[]): (Writer | undefined)[] {
    return this.find(tokens, tokens.length).map(({ pages }) => pages.find(Boolean)?.writer);
  }

  /** What is inconsistent where sequences hold `held`, as sentences; empty where all is sound. */
  check(held: readonly Holding[]): string[] {
    const rows = held.flatMap((one) => [...one.rows.entries()]);
    const wrong = rows.flatMap(([group, row]) => {
      const count = row.filter((page) => page !== GONE).length;
      const most = this.footprint.most(this.windows[group] ?? null);
      return count > most ? [`A sequence has ${count} pages of a window, not ${most}.`] : [];
    });
    const pages = rows.flatMap(([, row]) => row).filter((page) => page !== GONE);
    return [
      ...this.rack.check(
        pages,
        held.map(({ at }) => at),
      ),
      ...wrong,
    ];
  }

  /** How many of the first pages of a group lie behind the window of the token after so many. */
  private behind(group: number, tokens: number): number {
    return this.footprint.behind(this.windows[group] ?? null, tokens);
  }

  /** The first page of a group that the token after so many pages sees. */
  private first(group: number, pages: number): number {
    return this.behind(group, pages * this.pageTokens);
  }

  /** Rows of so many pages, without those that the token after them does not see. */
  private rowsOf(
    count: number,
    pageOf: (group: number, nth: number) => number | undefined,
  ): number[][] {
    return this.windows.map((_, group) => {
      const first = this.first(group, count);
      return Array.from({ length: count }, (_, nth) =>
        nth < first ? GONE : (pageOf(group, nth) ?? GONE),
      );
    });
  }

  /** A lease of rows that are shared already, with all its other pages where it keeps them and they are there. */
  private lease(rows: number[][], needed: number, asked: number): Lease {
    const holding = { rows, known: 0, at: null };
    const cached = (rows[0]?.length ?? 0) * this.pageTokens;
    this.queriedTokens += asked;
    this.hitTokens += cached;
    if (!this.footprint.bounded && this.rack.makeRoom(needed))
      this.extend(holding, needed / rows.length);
    return { holding, cached };
  }

  /**
   * Pages of all groups that a sequence of `total` tokens comes to hold, at most, beside its first `count`: of a group
   * with a window those do not count that it holds alone, since others get them when it gives them back.
   */
  private yetToGet(count: number, alone: (group: number) => number, total: number): number {
    const more = Math.max(pagesFor(total, this.pageTokens) - count, 0);
    return this.windows.reduce<number>((sum, window, group) => {
      const most = window === null ? more : this.footprint.most(window) - alone(group);
      return sum + Math.min(more, most);
    }, 0);
  }

  /** Let others find the full pages of a sequence that goes on, as far as nobody else has given them any such. */
  private publish(holding: Holding, tokens: readonly number[], prefilled: number): void {
    const full = Math.floor(tokens.length / this.pageTokens);
    let { at } = holding;
    for (let nth = holding.known; nth < full; nth++) {
      at = this.rack.reach(at, tokens, nth);
      for (const [group, row] of holding.rows.entries()) {
        const page = row[nth] ?? GONE;
        if (page === GONE || at.pages[group] || this.rack.byPage.has(page)) continue;
        this.rack.pool.share([page]);
        this.rack.enter(at, group, page, this.writerOf(nth, prefilled));
      }
    }
    this.follow(holding, at, Math.max(full, holding.known));
  }

  /** A sequence goes on behind a place, which stays for it. */
  private follow(holding: Holding, at: Place | null, known: number): void {
    if (at) at.followers += 1;
    const before = holding.at;
    holding.at = at;
    holding.known = known;
    if (!before) return;
    before.followers -= 1;
    this.rack.prune(before);
  }

  private writerOf(nth: number, prefilled: number): Writer {
    return (nth + 1) * this.pageTokens <= prefilled ? "prefill" : "decode";
  }

  /** The first places of a history, as many as a sequence can begin with. */
  private find(tokens: readonly number[], adoptable: number): Place[] {
    const chain = this.rack.chain(tokens, adoptable);
    let count = chain.length;
    for (;;) {
      const [first] = this.missingOf(chain, count);
      if (!first) return chain.slice(0, count);
      count = first.nth; // whoever begins with more needs this one, too
    }
  }

  /** The pages that these places lack of those that the token after the first `count` sees, in order. */
  private missingOf(chain: readonly Place[], count: number): Wanted[] {
    const firsts = this.windows.map((_, group) => this.first(group, count));
    const missing: Wanted[] = [];
    for (let nth = 0; nth < count; nth++) {
      for (const [group, first] of firsts.entries()) {
        if (nth >= first && !chain[nth]?.pages[group]) missing.push({ nth, group });
      }
    }
    return missing;
  }

  /** What is kept of these places that the token after the first `count` sees, in order. */
  private seen(places: readonly Place[], count: number): Entry[] {
    const firsts = this.windows.map((_, group) => this.first(group, count));
    return places.flatMap(({ pages }, nth) =>
      pages
        .filter((entry) => entry !== undefined)
        .filter(({ group }) => nth >= (firsts[group] ?? 0)),
    );
  }
}

function gone(count: number): number[] {
  return new Array<number>(count).fill(GONE);
}
