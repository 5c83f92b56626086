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
  /** Never used again, so that nothing can follow a page that is gone. */
  readonly id: number;
  readonly page: number;
  readonly writer: Writer;
}

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
  /** The parent's id and the page's tokens to the page, in order of use, the oldest first. */
  private readonly entries = new Map<string, Entry>();
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
    const cached = [...this.entries.values()];
    return this.free + cached.filter(({ page }) => this.pool.owners(page) === 1).length;
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
    const keys = this.find(tokens, adoptable);
    const adopted = keys.map((key) => this.entries.get(key)?.page ?? 0);
    this.pool.share(adopted);
    const needed = pagesFor(total, this.pageTokens) - adopted.length;
    const toCome = this.most - this.pool.size;
    if (this.obtainable + toCome < needed + promised) {
      this.pool.release(adopted);
      return null;
    }
    const now = this.makeRoom(needed) ? needed : 0;
    this.touch(keys);
    const cached = adopted.length * this.pageTokens;
    this.queriedTokens += tokens.length;
    this.hitTokens += cached;
    return { pages: [...adopted, ...this.pool.allocate(now)], cached };
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

  /**
   * Take back the pages of a sequence, and keep the full ones.
   *
   * @param tokens what is in them, in order; the first `prefilled` were written by prefill.
   */
  retire(tokens: readonly number[], pages: readonly number[], prefilled: number): void {
    const full = Math.min(Math.floor(tokens.length / this.pageTokens), pages.length);
    const keys: string[] = [];
    let parent = ROOT;
    for (const [nth, page] of pages.slice(0, full).entries()) {
      const key = this.keyOf(parent, tokens, nth);
      let entry = this.entries.get(key);
      if (entry) {
        this.pool.release([page]); // the sequence's own copy, or its share of this one
      } else {
        this.ids += 1;
        const writer = (nth + 1) * this.pageTokens <= prefilled ? "prefill" : "decode";
        entry = { id: this.ids, page, writer };
        this.entries.set(key, entry);
      }
      keys.push(key);
      parent = entry.id;
    }
    this.touch(keys);
    this.pool.release(pages.slice(full));
  }

  /** Take back the pages of a sequence whose contents are in doubt: nobody finds them any more. */
  discard(pages: readonly number[]): void {
    const doubted = new Set(pages);
    for (const [key, { page }] of this.entries) {
      if (!doubted.has(page)) continue;
      this.entries.delete(key);
      this.pool.release([page]);
    }
    this.pool.release(pages);
  }

  /** Who wrote the pages that a prompt of these tokens would adopt. */
  writers(tokens: readonly number[]): Writer[] {
    return this.find(tokens, tokens.length).flatMap((key) => this.entries.get(key)?.writer ?? []);
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
    return [...this.pool.check(), ...wrong];
  }

  private find(tokens: readonly number[], adoptable: number): string[] {
    const keys: string[] = [];
    let parent = ROOT;
    for (let nth = 0; (nth + 1) * this.pageTokens <= adoptable; nth++) {
      const key = this.keyOf(parent, tokens, nth);
      const entry = this.entries.get(key);
      if (!entry) break;
      keys.push(key);
      parent = entry.id;
    }
    return keys;
  }

  /** The last page first, so that what it follows is never older than it is. */
  private touch(keys: readonly string[]): void {
    for (const key of keys.toReversed()) {
      const entry = this.entries.get(key);
      if (!entry) continue;
      this.entries.delete(key);
      this.entries.set(key, entry);
    }
  }

  /** Free `needed` pages if that can be done, giving up the oldest that nobody else owns. */
  private makeRoom(needed: number): boolean {
    const lacking = needed - this.pool.free;
    if (lacking <= 0) return true;
    const victims: string[] = [];
    for (const [key, { page }] of this.entries) {
      if (victims.length === lacking) break;
      if (this.pool.owners(page) === 1) victims.push(key);
    }
    if (victims.length < lacking) return false;
    for (const key of victims) {
      const entry = this.entries.get(key);
      this.entries.delete(key);
      if (entry) this.pool.release([entry.page]);
    }
    return true;
  }

  private keyOf(parent: number, tokens: readonly number[], nth: number): string {
    const start = nth * this.pageTokens;
    return `${parent}:${tokens.slice(start, start + this.pageTokens).join()}`;
  }
}
