/**
 * All pages of KV memory: who owns which, what is in those that are kept, and which of them go first.
 *
 * A page is found by what comes before it and its own token ids, so what is found is exactly the same history. Each state
 * group has a page of its own for the same tokens, at one place: a place outlives those that follow it, whatever is left of
 * its own pages.
 */

import { PagePool } from "./pages.ts";

/** Which plan wrote a page: their arithmetic may differ in the last bits. */
export type Writer = "prefill" | "decode";

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

export interface Entry {
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

const ROOT = 0;

export class Rack {
  readonly pool: PagePool;
  /** The id of the place before and the page's tokens to the place; no place comes before the one that it follows. */
  readonly places = new Map<string, Place>();
  /** In the order in which they came to be kept. */
  readonly byPage = new Map<number, Entry>();
  private readonly pageTokens: number;
  private readonly groups: number;
  /** Those whose pages no sequence holds, in order of use: the oldest goes first. */
  private readonly idle = new Set<Entry>();
  /** Those that a sequence has left behind its window and none has begun with. They go before the others. */
  private readonly left = new Set<Entry>();
  private ids = ROOT;

  /** @param pageTokens tokens of a page. */
  constructor(pages: number, groups: number, pageTokens: number) {
    this.pool = new PagePool(pages);
    this.groups = groups;
    this.pageTokens = pageTokens;
  }

  /** Pages that are free, or that nobody but the index holds. */
  get obtainable(): number {
    return this.pool.free + this.idle.size + this.left.size;
  }

  /** The pages that nobody holds, those first that are to go first. */
  get resting(): readonly Entry[] {
    return [...this.left, ...this.idle];
  }

  isIdle(entry: Entry): boolean {
    return this.idle.has(entry) || this.left.has(entry);
  }

  /** Sequences that hold a page. */
  holders(page: number): number {
    return this.pool.owners(page) - Number(this.byPage.has(page));
  }

  /** One more sequence holds these, which it begins with. */
  adopt(entries: readonly Entry[]): void {
    this.pool.share(entries.map((entry) => entry.page));
    for (const entry of entries) {
      entry.used = true;
      this.unrest(entry);
    }
  }

  /** One sequence less holds a page, which lies behind its window. */
  leave(page: number): void {
    this.pool.release([page]);
    const entry = this.byPage.get(page);
    if (entry && this.pool.owners(page) === 1) (entry.used ? this.idle : this.left).add(entry);
  }

  /** The pages of a history, which were used just now, may go if nobody else holds them; the last
   * one first. */
  rest(history: readonly Entry[]): void {
    for (const entry of history.toReversed()) {
      this.unrest(entry);
      if (this.pool.owners(entry.page) === 1) this.idle.add(entry);
    }
  }

  /** Free `needed` pages if that can be done, giving up the oldest that nobody holds. */
  makeRoom(needed: number): boolean {
    if (needed > this.obtainable) return false;
    for (const those of [this.left, this.idle]) {
      for (const entry of those) {
        if (this.pool.free >= needed) return true;
        this.forget(entry);
      }
    }
    return true;
  }

  /** The places of the first `tokens` of a history, a full page each, as far as they are known. */
  chain(tokens: readonly number[], most = tokens.length): Place[] {
    const found: Place[] = [];
    for (let nth = 0; (nth + 1) * this.pageTokens <= most; nth++) {
      const place = this.places.get(this.keyOf(found.at(-1)?.id ?? ROOT, tokens, nth));
      if (!place) break;
      found.push(place);
    }
    return found;
  }

  /** The place of the nth tokens of a history, after the one before it. Whoever is not sure to use it has to `prune` it. */
  reach(before: Place | null, tokens: readonly number[], nth: number): Place {
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
      pages: new Array<Entry | undefined>(this.groups).fill(undefined),
      followers: 0,
    };
    if (before) before.followers += 1;
    this.places.set(key, place);
    return place;
  }

  /** The index owns a page of a place from now on. */
  enter(place: Place, group: number, page: number, writer: Writer): Entry {
    this.ids += 1;
    const entry = { id: this.ids, page, group, place, writer, used: false };
    place.pages[group] = entry;
    this.byPage.set(page, entry);
    return entry;
  }

  forget(entry: Entry): void {
    const { place, group, page } = entry;
    place.pages[group] = undefined;
    this.byPage.delete(page);
    this.unrest(entry);
    this.pool.release([page]);
    this.prune(place);
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

  /** Forget a place that there is no use for, and those before it that there is none for then. */
  prune(place: Place): void {
    let at: Place | null = place;
    for (; at && isBare(at) && this.places.get(at.key) === at; at = at.before) {
      this.places.delete(at.key);
      if (at.before) at.before.followers -= 1;
    }
  }

  /** What is inconsistent where sequences hold `held`, and go on behind `ends`, as sentences; empty where all is sound. */
  check(held: readonly number[], ends: readonly (Place | null)[]): string[] {
    const expected = new Array<number>(this.pool.size).fill(0);
    for (const page of [...held, ...this.byPage.keys()]) {
      expected[page] = (expected[page] ?? 0) + 1;
    }
    const wrong = expected.flatMap((count, page) => {
      const owners = this.pool.owners(page);
      return owners === count ? [] : [`Page ${page} has ${owners} owners, not ${count}.`];
    });
    const resting = [...this.byPage.values()].filter(({ page }) => this.pool.owners(page) === 1);
    const known = this.idle.size + this.left.size;
    if (resting.length !== known || resting.some((entry) => !this.isIdle(entry))) {
      wrong.push(`${resting.length} pages are held by nobody, not ${known}.`);
    }
    return [...this.pool.check(), ...wrong, ...this.checkPlaces(ends)];
  }

  private checkPlaces(ends: readonly (Place | null)[]): string[] {
    const places = [...this.places.values()];
    const followers = new Map<Place | null, number>();
    for (const place of [...places.map(({ before }) => before), ...ends]) {
      followers.set(place, (followers.get(place) ?? 0) + 1);
    }
    const entries = places.flatMap(({ pages }) => pages).filter((entry) => entry !== undefined);
    const lost = entries.some((one) => this.byPage.get(one.page) !== one);
    return [
      ...(lost || entries.length !== this.byPage.size
        ? ["Pages are not where they are kept."]
        : []),
      ...places
        .filter((one) => one.followers !== (followers.get(one) ?? 0) || isBare(one))
        .map((one) => `Place ${one.id} has ${one.followers} followers.`),
    ];
  }

  private unrest(entry: Entry): void {
    this.idle.delete(entry);
    this.left.delete(entry);
  }

  private keyOf(parent: number, tokens: readonly number[], nth: number): string {
    const start = nth * this.pageTokens;
    return `${parent}:${tokens.slice(start, start + this.pageTokens).join()}`;
  }
}

/** Whether there is no use for a place. */
function isBare({ followers, pages }: Place): boolean {
  return followers === 0 && pages.every((entry) => entry === undefined);
}
