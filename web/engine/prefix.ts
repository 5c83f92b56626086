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
import { PagePool } from "./pages.ts";

/** Which plan wrote a page: their arithmetic may differ in the last bits. */
export type Writer = "prefill" | "decode";

/** Instead of a page that was given back, or was never needed: it lies behind a window. */
export const GONE = -1;

/** The tokens of a page, after all that come before them. */
export interface Place {
  readonly key: string;
  /** Never used again, so that nothing can follow a place that is gone. */
  readonly id: number;
  /** Null for the first of a history. */
  readonly before: Place | null;
  readonly tokens: readonly number[];
  /** What is kept of it, by state group. */
  readonly pages: (Entry | undefined)[];
  /** Places, and sequences that go on, behind it: it stays as long as there are any, or pages of it. */
  followers: number;
}

interface Entry {
  readonly id: number;
  readonly page: number;
  readonly group: number;
  readonly place: Place;
  readonly writer: Writer;
  /** Whether a sequence has begun with it. */
  used: boolean;
}

/** A page of the index: of which state group it is, what it holds, and behind what. */
export type Kept = Pick<Entry, "id" | "page" | "group"> & { readonly place: KeptPlace };
export type KeptPlace = Pick<Place, "id" | "tokens"> & { readonly before: KeptPlace | null };

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

const ROOT = 0;

export class PrefixPages {
  /** Tokens of all prompts that were looked up, and those of them that were found. */
  queriedTokens = 0;
  hitTokens = 0;
  /** Pages that there may be in the end. */
  most: number;
  private readonly pool: PagePool;
  private readonly footprint: Footprint;
  private readonly pageTokens: number;
  private readonly windows: Footprint["windows"];
  /** The id of the place before and the page's tokens to the place. */
  private readonly places = new Map<string, Place>();
  /** In the order in which they came to be kept. */
  private readonly byPage = new Map<number, Entry>();
  /** Those whose pages no sequence holds, in order of use: the oldest goes first. Who holds a page of a group without a
   * window holds all before it, so what is oldest is the end of a history. */
  private readonly idle = new Set<Entry>();
  /** Those that a sequence has left behind its window and none has begun with. They go before the others. */
  private readonly left = new Set<Entry>();
  private ids = ROOT;

  /**
   * @param pages that there are.
   * @param footprint what sequences need of them.
   * @param most pages that there may be, once it has grown.
   */
  constructor(pages: number, footprint: Footprint, most = pages) {
    this.pool = new PagePool(pages);
    this.most = most;
    this.footprint = footprint;
    this.pageTokens = footprint.pageTokens;
    this.windows = footprint.windows;
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
    return this.free + this.idle.size + this.left.size;
  }

  /** Pages of the index. */
  get cached(): number {
    return this.byPage.size;
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
    const mine = adopted.filter((entry) => this.isIdle(entry));
    const alone = (group: number) => mine.filter((entry) => entry.group === group).length;
    const needed = this.yetToGet(found.length, alone, total);
    // Who holds one of these no longer holds it alone, and may have to get another in its place.
    const instead = adopted.filter((one) => this.windows[one.group] !== null && !this.isIdle(one));
    const room = this.obtainable - mine.length + this.most - this.pool.size;
    if (room < needed + instead.length + promised) return null;
    this.pool.share(adopted.map((entry) => entry.page));
    for (const entry of adopted) {
      entry.used = true;
      this.unrest(entry);
    }
    const rows = this.rowsOf(found.length, (group, nth) => found[nth]?.pages[group]?.page);
    const lease = this.lease(rows, needed, tokens.length);
    if (this.footprint.bounded) this.follow(lease.holding, found.at(-1) ?? null, found.length);
    return lease;
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
    const room = this.obtainable + this.most - this.pool.size;
    if (room < needed + instead.length + promised) return null;
    this.pool.share(pages.flat());
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
    this.makeRoom(more * rows.length);
    for (const row of rows) row.push(...this.pool.allocate(more));
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
        this.pool.release([page]);
        const entry = this.byPage.get(page);
        if (entry && this.pool.owners(page) === 1) (entry.used ? this.idle : this.left).add(entry);
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
        const holders = this.pool.owners(page) - Number(this.byPage.has(page));
        if (holders === 1) count += 1;
      }
      return count;
    };
    return this.yetToGet(placesOf(holding), alone, total);
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
    return [...this.left, ...this.idle];
  }

  /** Let go of those of these pages that nobody holds and, without a window, that no page which stays follows; how many that were. */
  letGo(pages: ReadonlySet<Kept>): number {
    const followers = new Map<number, number>();
    const count = ({ place: { before }, group }: Entry, more: number) => {
      if (!before || this.windows[group] !== null) return;
      followers.set(before.id, (followers.get(before.id) ?? 0) + more);
    };
    for (const entry of this.byPage.values()) count(entry, 1);
    const before = this.byPage.size;
    for (const entry of [...this.left, ...this.idle]) {
      const needed = this.windows[entry.group] === null && (followers.get(entry.place.id) ?? 0) > 0;
      if (!pages.has(entry) || needed) continue;
      this.forget(entry);
      count(entry, -1);
    }
    return before - this.byPage.size;
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
      place = this.reach(place, tokens, nth);
      for (const [group, row] of rows.entries()) {
        const page = row[nth] ?? GONE;
        if (page === GONE) continue;
        const known = place.pages[group];
        if (known) this.pool.release([page]); // the sequence's own copy, or its share of this one
        kept.push(known ?? this.enter(place, group, page, this.writerOf(nth, prefilled)));
      }
    }
    for (const row of rows) this.pool.release(row.slice(full));
    this.follow(holding, null, 0);
    if (place) this.prune(place);
    this.rest(kept);
  }

  /**
   * Take back the pages of a sequence whose contents are in doubt: nobody finds them any more, nor those that it has
   * given back, nor what follows any of them.
   *
   * @param tokens what should be in them.
   */
  discard(tokens: readonly number[], holding: Holding): void {
    const pages = holding.rows.flat().filter((page) => page !== GONE);
    const entries = pages.map((page) => this.byPage.get(page));
    const left = this.footprint.bounded ? this.chain(tokens).flatMap((place) => place.pages) : [];
    this.drop([...entries, ...left].filter((entry) => entry !== undefined));
    this.pool.release(pages);
    this.follow(holding, null, 0);
  }

  /** How many pages a prompt would adopt. */
  adoptable(tokens: readonly number[], adoptable: number): number {
    return this.find(tokens, adoptable).length;
  }

  /** How many pages more there would have to be for so many others, if what is here of these histories is to stay. */
  missing(count: number, histories: readonly (readonly number[])[]): number {
    if (count <= this.free) return 0;
    const here = histories.flatMap((tokens) => this.chain(tokens).flatMap(({ pages }) => pages));
    const stay = new Set(here.filter((entry) => entry && this.isIdle(entry)));
    return Math.max(0, count - (this.obtainable - stay.size));
  }

  /** Whether sequences give pages back as they go on. */
  get bounded(): boolean {
    return this.footprint.bounded;
  }

  /** With how many of its first pages, fewer than `count`, a sequence may begin where these are missing. */
  without(count: number, missing: readonly Wanted[]): number {
    // Of a group with a window fewer pages that still need the last of them are too many, too.
    const ends = this.windows.map((window, group) => {
      const mine = missing.filter((one) => one.group === group).map(({ nth }) => nth);
      if (mine.length === 0) return count;
      return window === null ? Math.min(...mine) : Math.max(...mine);
    });
    return Math.min(count, ...ends);
  }

  /** The pages that are not here of those that a sequence needs to begin with the first `count` of a history. */
  lacks(tokens: readonly number[], count: number): Wanted[] {
    return this.missingOf(this.chain(tokens), count);
  }

  /**
   * Pages for what is kept elsewhere of a history: as many as can be had without those that a sequence needs to begin
   * with the first `count`, and of a group without a window those only that what is before them is there, too. Null
   * stands for one that is here. They are found from now on: they have to be written before anything else is submitted.
   */
  place(tokens: readonly number[], count: number, wanted: readonly Wanted[]): (Kept | null)[] {
    const before = this.chain(tokens);
    const kept = this.seen(before.slice(0, count), count);
    this.rest(kept);
    const lacking = wanted.filter(({ nth, group }) => !before[nth]?.pages[group]).length;
    const mine = kept.filter((entry) => this.isIdle(entry)).length;
    let room = Math.min(lacking, this.obtainable - mine);
    this.makeRoom(room);
    const chain: Place[] = [];
    const placed: (Entry | null)[] = [];
    for (const { nth, group } of wanted) {
      while (chain.length <= nth)
        chain.push(this.reach(chain.at(-1) ?? null, tokens, chain.length));
      const place = chain[nth];
      const follows = this.windows[group] === null && nth > 0;
      if (!place || (follows && !chain[nth - 1]?.pages[group])) break;
      if (place.pages[group]) {
        placed.push(null);
        continue;
      }
      if (room === 0) break;
      room -= 1;
      const [page = GONE] = this.pool.allocate(1);
      placed.push(this.enter(place, group, page, "prefill"));
    }
    const last = chain.at(-1);
    if (last) this.prune(last);
    this.rest([...kept, ...placed.filter((entry) => entry !== null)]);
    return placed;
  }

  /** The pages that came to be kept after the one of that id, in this order. */
  after(id: number): readonly Kept[] {
    return [...this.byPage.values()].filter((entry) => entry.id > id);
  }

  /** Nobody finds these any more, nor what follows them. */
  drop(kept: readonly Kept[]): void {
    if (kept.length === 0) return;
    const ids = new Set(kept.map(({ place }) => place.id));
    for (const place of [...this.places.values()]) {
      if (place.before && ids.has(place.before.id)) ids.add(place.id);
      if (!ids.has(place.id)) continue;
      for (const entry of [...place.pages]) if (entry) this.forget(entry);
    }
  }

  /** Whether a page is still here. */
  keeps({ id, page }: Kept): boolean {
    return this.byPage.get(page)?.id === id;
  }

  /** Who wrote the pages that a prompt of these tokens would adopt. */
  writers(tokens: readonly number[]): (Writer | undefined)[] {
    return this.find(tokens, tokens.length).map(({ pages }) => pages.find(Boolean)?.writer);
  }

  /** What is inconsistent where sequences hold `held`, as sentences; empty where all is sound. */
  check(held: readonly Holding[]): string[] {
    const expected = new Array<number>(this.pool.size).fill(0);
    const pages = held.flatMap(({ rows }) => rows.flat()).filter((page) => page !== GONE);
    for (const page of [...pages, ...this.byPage.keys()]) {
      expected[page] = (expected[page] ?? 0) + 1;
    }
    const wrong = expected.flatMap((count, page) => {
      const owners = this.pool.owners(page);
      return owners === count ? [] : [`Page ${page} has ${owners} owners, not ${count}.`];
    });
    const resting = [...this.byPage.values()].filter(({ page }) => this.pool.owners(page) === 1);
    const known = new Set(this.resting.map(({ id }) => id));
    if (
      resting.length !== this.idle.size + this.left.size ||
      resting.some(({ id }) => !known.has(id))
    ) {
      wrong.push(`${resting.length} pages are held by nobody, not ${known.size}.`);
    }
    for (const { rows } of held) {
      for (const [group, row] of rows.entries()) {
        const count = row.filter((page) => page !== GONE).length;
        const most = this.footprint.most(this.windows[group] ?? null);
        if (count > most) wrong.push(`A sequence has ${count} pages of a window, not ${most}.`);
      }
    }
    return [...this.pool.check(), ...wrong, ...this.checkPlaces(held)];
  }

  private checkPlaces(held: readonly Holding[]): string[] {
    const followers = new Map<Place, number>();
    const places = [...this.places.values()];
    for (const place of [...places.map(({ before }) => before), ...held.map(({ at }) => at)]) {
      if (place) followers.set(place, (followers.get(place) ?? 0) + 1);
    }
    const entries = places.flatMap(({ pages }) => pages).filter((entry) => entry !== undefined);
    const lost = entries.length !== this.byPage.size || entries.some((one) => !this.keeps(one));
    return [
      ...(lost ? ["Pages are not where the index says."] : []),
      ...places
        .filter((one) => one.followers !== (followers.get(one) ?? 0) || this.isBare(one))
        .map(({ id, followers }) => `Place ${id} has ${followers} followers.`),
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
    if (!this.footprint.bounded && this.makeRoom(needed))
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
      at = this.reach(at, tokens, nth);
      for (const [group, row] of holding.rows.entries()) {
        const page = row[nth] ?? GONE;
        if (page === GONE || at.pages[group] || this.byPage.has(page)) continue;
        this.pool.share([page]);
        this.enter(at, group, page, this.writerOf(nth, prefilled));
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
    this.prune(before);
  }

  private writerOf(nth: number, prefilled: number): Writer {
    return (nth + 1) * this.pageTokens <= prefilled ? "prefill" : "decode";
  }

  private enter(place: Place, group: number, page: number, writer: Writer): Entry {
    this.ids += 1;
    const entry = { id: this.ids, page, group, place, writer, used: false };
    place.pages[group] = entry;
    this.byPage.set(page, entry);
    return entry;
  }

  /** The place of the nth tokens of a history, after the one before it. Who makes it sees to it that it is not bare. */
  private reach(before: Place | null, tokens: readonly number[], nth: number): Place {
    const key = this.keyOf(before?.id ?? ROOT, tokens, nth);
    const known = this.places.get(key);
    if (known) return known;
    this.ids += 1;
    const start = nth * this.pageTokens;
    const place = {
      key,
      id: this.ids,
      before,
      tokens: tokens.slice(start, start + this.pageTokens),
      pages: this.windows.map(() => undefined),
      followers: 0,
    };
    if (before) before.followers += 1;
    this.places.set(key, place);
    return place;
  }

  /** Whether there is no use for a place. */
  private isBare({ followers, pages }: Place): boolean {
    return followers === 0 && pages.every((entry) => entry === undefined);
  }

  /** Forget a place that there is no use for, and those before it that there is none for then. */
  private prune(place: Place): void {
    let at: Place | null = place;
    for (; at && this.isBare(at) && this.places.get(at.key) === at; at = at.before) {
      this.places.delete(at.key);
      if (at.before) at.before.followers -= 1;
    }
  }

  /** The places of the full pages of a history, as far as they are known. */
  private chain(tokens: readonly number[], most = tokens.length): Place[] {
    const found: Place[] = [];
    for (let nth = 0; (nth + 1) * this.pageTokens <= most; nth++) {
      const place = this.places.get(this.keyOf(found.at(-1)?.id ?? ROOT, tokens, nth));
      if (!place) break;
      found.push(place);
    }
    return found;
  }

  /** The first places of a history, as many as a sequence can begin with. */
  private find(tokens: readonly number[], adoptable: number): Place[] {
    const chain = this.chain(tokens, adoptable);
    let count = chain.length;
    for (;;) {
      const missing = this.missingOf(chain, count);
      if (missing.length === 0) return chain.slice(0, count);
      count = this.without(count, missing);
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

  private isIdle(entry: Entry): boolean {
    return this.idle.has(entry) || this.left.has(entry);
  }

  private unrest(entry: Entry): void {
    this.idle.delete(entry);
    this.left.delete(entry);
  }

  /** The pages of a history, which were used just now, may go if nobody else holds them; the last
   * one first. */
  private rest(history: readonly Entry[]): void {
    for (const entry of history.toReversed()) {
      this.unrest(entry);
      if (this.pool.owners(entry.page) === 1) this.idle.add(entry);
    }
  }

  /** Free `needed` pages if that can be done, giving up the oldest that nobody holds. */
  private makeRoom(needed: number): boolean {
    if (needed > this.obtainable) return false;
    for (const those of [this.left, this.idle]) {
      for (const entry of those) {
        if (this.pool.free >= needed) return true;
        this.forget(entry);
      }
    }
    return true;
  }

  private forget(entry: Entry): void {
    const { place, group, page } = entry;
    place.pages[group] = undefined;
    this.byPage.delete(page);
    this.unrest(entry);
    this.pool.release([page]);
    this.prune(place);
  }

  private keyOf(parent: number, tokens: readonly number[], nth: number): string {
    const start = nth * this.pageTokens;
    return `${parent}:${tokens.slice(start, start + this.pageTokens).join()}`;
  }
}

function gone(count: number): number[] {
  return new Array<number>(count).fill(GONE);
}
