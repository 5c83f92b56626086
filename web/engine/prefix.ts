/**
 * Pages of KV memory and what is known about their contents: a prompt that begins as an earlier
 * one did adopts the pages that are there.
 *
 * The index owns full pages of sequences that have ended. A page is found by the page before it and
 * its own token ids, so what is found is exactly the same history. The pages that were not asked
 * for longest go first when memory is needed; a page always outlives those that follow it.
 */

import { pagesFor } from "../format/state.ts";
import { PagePool } from "./pages.ts";

/** Which plan wrote a page: their arithmetic may differ in the last bits. */
export type Writer = "prefill" | "decode";

interface Entry {
  readonly key: string;
  /** Never used again, so that nothing can follow a page that is gone. */
  readonly id: number;
  readonly page: number;
  readonly writer: Writer;
  /** The page before it; null for the first of a history. */
  readonly before: Entry | null;
  readonly tokens: readonly number[];
}

/** A page of the index: what it holds, and behind which other. */
export type Kept = Pick<Entry, "id" | "page" | "before" | "tokens">;

/** What a sequence holds: its pages in order, the first of which have `cached` tokens already. */
export interface Lease {
  readonly pages: readonly number[];
  readonly cached: number;
}

const ROOT = 0;

export class PrefixPages {
  /** Tokens of all prompts that were looked up, and those of them that were found. */
  queriedTokens = 0;
  hitTokens = 0;
  /** Pages that there may be in the end. */
  most: number;
  private readonly pool: PagePool;
  private readonly pageTokens: number;
  /** The parent's id and the page's tokens to the page. */
  private readonly entries = new Map<string, Entry>();
  private readonly byPage = new Map<number, Entry>();
  /** Those whose pages no sequence holds, in order of use: the oldest goes first. Who holds a page
   * holds all before it, so what is oldest is the end of a history. */
  private readonly idle = new Set<Entry>();
  private ids = ROOT;

  /**
   * @param pages that there are.
   * @param pageTokens tokens that a page holds.
   * @param most pages that there may be, once it has grown.
   */
  constructor(pages: number, pageTokens: number, most = pages) {
    this.pool = new PagePool(pages);
    this.most = most;
    this.pageTokens = pageTokens;
  }

  /** Pages in all. */
  get size(): number {
    return this.pool.size;
  }

  /** Pages that hold nothing. */
  get free(): number {
    return this.pool.free;
  }

  /** Pages that are free, or that nobody but the index holds. */
  get obtainable(): number {
    return this.free + this.idle.size;
  }

  /** Pages of the index. */
  get cached(): number {
    return this.entries.size;
  }

  /**
   * Pages for `total` tokens that begin with `tokens`, or null where there are too few even in the
   * end. Where too few are free now, those that are adopted only: the others come with `extend`.
   *
   * @param adoptable most tokens that come from pages that are there.
   * @param promised pages that others have yet to get.
   */
  acquire(tokens: readonly number[], adoptable: number, total: number, promised = 0): Lease | null {
    const found = this.find(tokens, adoptable);
    const needed = pagesFor(total, this.pageTokens) - found.length;
    const toCome = this.most - this.pool.size;
    const adoptedIdle = found.filter((entry) => this.idle.has(entry)).length;
    if (this.obtainable - adoptedIdle + toCome < needed + promised) return null;
    const adopted = found.map((entry) => entry.page);
    this.pool.share(adopted);
    for (const entry of found) this.idle.delete(entry);
    const now = this.makeRoom(needed) ? needed : 0;
    const cached = adopted.length * this.pageTokens;
    this.queriedTokens += tokens.length;
    this.hitTokens += cached;
    return { pages: [...adopted, ...this.pool.allocate(now)], cached };
  }

  /**
   * Pages for `total` tokens that begin with these of another lease, all of which are full: nobody writes to them any
   * more. Null as of `acquire`.
   *
   * @param asked tokens of the prompt.
   */
  fork(shared: readonly number[], asked: number, total: number, promised = 0): Lease | null {
    const needed = pagesFor(total, this.pageTokens) - shared.length;
    if (this.obtainable + this.most - this.pool.size < needed + promised) return null;
    this.pool.share(shared);
    const now = this.makeRoom(needed) ? needed : 0;
    const cached = shared.length * this.pageTokens;
    this.queriedTokens += asked;
    this.hitTokens += cached;
    return { pages: [...shared, ...this.pool.allocate(now)], cached };
  }

  /** More pages for a lease, of those that are `obtainable`. */
  extend(pages: readonly number[], more: number): readonly number[] {
    this.makeRoom(more);
    return [...pages, ...this.pool.allocate(more)];
  }

  /** Have so many pages in all. */
  grow(pages: number): void {
    this.pool.grow(pages);
  }

  /** Have so few pages, or as many more as what is in them asks for: how many there are then. There may be as many as before. */
  shrink(least: number): number {
    return this.pool.shrink(least);
  }

  /** The pages that nobody holds, those first that were not used for longest: who follows another is before it. */
  get resting(): readonly Kept[] {
    return [...this.idle];
  }

  /** Let go of those of these pages that nobody holds and that no page which stays follows; how many that were. */
  letGo(pages: ReadonlySet<Kept>): number {
    const followers = new Map<number, number>();
    const count = ({ before }: Entry, more: number) => {
      if (before) followers.set(before.id, (followers.get(before.id) ?? 0) + more);
    };
    for (const entry of this.entries.values()) count(entry, 1);
    const before = this.idle.size;
    for (const entry of this.idle) {
      if (!pages.has(entry) || (followers.get(entry.id) ?? 0) > 0) continue;
      this.forget(entry);
      count(entry, -1);
    }
    return before - this.idle.size;
  }

  /**
   * Take back the pages of a sequence, and keep the full ones.
   *
   * @param tokens what is in them, in order; the first `prefilled` were written by prefill.
   */
  retire(tokens: readonly number[], pages: readonly number[], prefilled: number): void {
    const full = Math.min(Math.floor(tokens.length / this.pageTokens), pages.length);
    const kept: Entry[] = [];
    for (const [nth, page] of pages.slice(0, full).entries()) {
      const before = kept.at(-1) ?? null;
      let entry = this.entries.get(this.keyOf(before?.id ?? ROOT, tokens, nth));
      if (entry) {
        this.pool.release([page]); // the sequence's own copy, or its share of this one
      } else {
        const doubted = this.byPage.get(page); // it follows one that was in doubt
        if (doubted) this.forget(doubted);
        const writer = (nth + 1) * this.pageTokens <= prefilled ? "prefill" : "decode";
        entry = this.enter(before, tokens, nth, page, writer);
      }
      kept.push(entry);
    }
    this.pool.release(pages.slice(full));
    this.rest(kept);
  }

  /** Take back the pages of a sequence whose contents are in doubt: nobody finds them any more. */
  discard(pages: readonly number[]): void {
    for (const page of new Set(pages)) {
      const entry = this.byPage.get(page);
      if (entry) this.forget(entry);
    }
    this.pool.release(pages);
  }

  /** How many pages a prompt would adopt. */
  adoptable(tokens: readonly number[], adoptable: number): number {
    return this.find(tokens, adoptable).length;
  }

  /** How many pages more there would have to be for so many others, if what is here of these histories is to stay. */
  missing(count: number, histories: readonly (readonly number[])[]): number {
    if (count <= this.free) return 0;
    const found = histories.flatMap((tokens) => this.find(tokens, tokens.length));
    const stay = new Set(found.filter((entry) => this.idle.has(entry)));
    return Math.max(0, count - (this.obtainable - stay.size));
  }

  /**
   * Pages for what is kept elsewhere of a history, of which the first `nth` and no more are here: as many as can be had
   * without those. They are found from now on: they have to be written before anything else is submitted.
   */
  place(tokens: readonly number[], nth: number, count: number): readonly Kept[] {
    const kept = this.find(tokens, (nth + count) * this.pageTokens);
    if (kept.length !== nth) return [];
    this.rest(kept);
    const mine = kept.filter((entry) => this.idle.has(entry)).length;
    const room = Math.min(count, this.obtainable - mine);
    if (room <= 0 || !this.makeRoom(room)) return [];
    const placed: Entry[] = [];
    for (const page of this.pool.allocate(room)) {
      const before = placed.at(-1) ?? kept.at(-1) ?? null;
      placed.push(this.enter(before, tokens, nth + placed.length, page, "prefill"));
    }
    this.rest([...kept, ...placed]);
    return placed;
  }

  /** The pages that came to be kept after the one of that id, in this order: whoever is before another comes first. */
  after(id: number): readonly Kept[] {
    return [...this.entries.values()].filter((entry) => entry.id > id);
  }

  /** Nobody finds these any more, nor what follows them. */
  drop(kept: readonly Kept[]): void {
    const ids = new Set(kept.map(({ id }) => id));
    for (const entry of [...this.entries.values()]) {
      if (entry.before && ids.has(entry.before.id)) ids.add(entry.id);
      if (ids.has(entry.id)) this.forget(entry);
    }
  }

  /** Whether a page is still here. */
  keeps({ id, page }: Kept): boolean {
    return this.byPage.get(page)?.id === id;
  }

  /** Who wrote the pages that a prompt of these tokens would adopt. */
  writers(tokens: readonly number[]): Writer[] {
    return this.find(tokens, tokens.length).map((entry) => entry.writer);
  }

  /** What is inconsistent where sequences hold `held`, as sentences; empty where all is sound. */
  check(held: readonly (readonly number[])[]): string[] {
    const expected = new Array<number>(this.pool.size).fill(0);
    for (const page of [...held.flat(), ...[...this.entries.values()].map((e) => e.page)]) {
      expected[page] = (expected[page] ?? 0) + 1;
    }
    const wrong = expected.flatMap((count, page) => {
      const owners = this.pool.owners(page);
      return owners === count ? [] : [`Page ${page} has ${owners} owners, not ${count}.`];
    });
    const resting = [...this.entries.values()].filter(({ page }) => this.pool.owners(page) === 1);
    if (resting.length !== this.idle.size || resting.some((entry) => !this.idle.has(entry))) {
      wrong.push(`${resting.length} pages are held by nobody, not ${this.idle.size}.`);
    }
    return [...this.pool.check(), ...wrong];
  }

  private enter(
    before: Entry | null,
    tokens: readonly number[],
    nth: number,
    page: number,
    writer: Writer,
  ): Entry {
    this.ids += 1;
    const start = nth * this.pageTokens;
    const entry = {
      key: this.keyOf(before?.id ?? ROOT, tokens, nth),
      id: this.ids,
      page,
      writer,
      before,
      tokens: tokens.slice(start, start + this.pageTokens),
    };
    this.entries.set(entry.key, entry);
    this.byPage.set(page, entry);
    return entry;
  }

  private find(tokens: readonly number[], adoptable: number): Entry[] {
    const found: Entry[] = [];
    let parent = ROOT;
    for (let nth = 0; (nth + 1) * this.pageTokens <= adoptable; nth++) {
      const entry = this.entries.get(this.keyOf(parent, tokens, nth));
      if (!entry) break;
      found.push(entry);
      parent = entry.id;
    }
    return found;
  }

  /** The pages of a history, which were used just now, may go if nobody else holds them; the last
   * one first. */
  private rest(history: readonly Entry[]): void {
    for (const entry of history.toReversed()) {
      this.idle.delete(entry);
      if (this.pool.owners(entry.page) === 1) this.idle.add(entry);
    }
  }

  /** Free `needed` pages if that can be done, giving up the oldest that nobody holds. */
  private makeRoom(needed: number): boolean {
    const lacking = needed - this.pool.free;
    if (lacking > this.idle.size) return false;
    for (const entry of this.idle) {
      if (this.pool.free >= needed) break;
      this.forget(entry);
    }
    return true;
  }

  private forget(entry: Entry): void {
    this.entries.delete(entry.key);
    this.byPage.delete(entry.page);
    this.idle.delete(entry);
    this.pool.release([entry.page]);
  }

  private keyOf(parent: number, tokens: readonly number[], nth: number): string {
    const start = nth * this.pageTokens;
    return `${parent}:${tokens.slice(start, start + this.pageTokens).join()}`;
  }
}
