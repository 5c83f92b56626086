/**
 * The page pool: which page of KV memory is free, and how many own each other one. It may grow.
 *
 * Pages are numbers; their memory is the KV buffers of a loaded program, where page p is row p of
 * every layer. A page with several owners is never written to again: a full page of a shared
 * prefix.
 */

import { EdgewiseError } from "../errors.ts";

/**
 * Pages 0..n-1, each free or owned, with the number of its owners.
 *
 * The lowest free page is handed out first, so that memory never touched stays untouched. Every
 * method that throws `input.pages` has changed nothing.
 */
export class PagePool {
  private readonly owned: number[];
  /** Sorted from high to low: the end is the lowest. */
  private readonly unowned: number[];

  constructor(n: number) {
    if (!Number.isInteger(n) || n < 1) throw wrong(`A pool needs at least one page, not ${n}.`);
    this.owned = new Array<number>(n).fill(0);
    this.unowned = Array.from({ length: n }, (_, i) => n - 1 - i);
  }

  /** Pages in all. */
  get size(): number {
    return this.owned.length;
  }

  /** Have so many pages in all, if there are fewer: the new ones are free. */
  grow(n: number): void {
    const { size } = this;
    if (n <= size) return;
    this.owned.push(...new Array<number>(n - size).fill(0));
    this.unowned.unshift(...Array.from({ length: n - size }, (_, i) => n - 1 - i));
  }

  /** How many pages are free. */
  get free(): number {
    return this.unowned.length;
  }

  /** How many own the page; 0 for a free one. */
  owners(page: number): number {
    const count = this.owned[page];
    if (count === undefined) throw wrong(`Page ${page} is not one of ${this.size}.`);
    return count;
  }

  /** Take k pages, each with one owner. Look at `free` before. */
  allocate(k: number): number[] {
    if (!(k >= 0 && k <= this.free)) {
      throw wrong(`Cannot allocate ${k} pages: ${this.free} are free.`);
    }
    const taken = this.unowned.splice(this.free - k, k).reverse();
    for (const page of taken) this.owned[page] = 1;
    return taken;
  }

  /** Add an owner to each of these pages, all of which are owned already. */
  share(pages: readonly number[]): void {
    for (const page of pages) {
      if (this.owners(page) === 0) throw wrong(`Page ${page} is free and cannot be shared.`);
    }
    for (const page of pages) this.owned[page] = this.owners(page) + 1;
  }

  /** Take an owner from each of these pages; those without any become free. */
  release(pages: readonly number[]): void {
    const counts = new Map<number, number>();
    for (const page of pages) {
      const count = (counts.get(page) ?? 0) + 1;
      if (count > this.owners(page)) throw wrong(`Page ${page} is released too often.`);
      counts.set(page, count);
    }
    let freed = false;
    for (const [page, count] of counts) {
      const left = this.owners(page) - count;
      this.owned[page] = left;
      if (left > 0) continue;
      this.unowned.push(page);
      freed = true;
    }
    if (freed) this.unowned.sort((a, b) => b - a);
  }

  /** What is inconsistent about the pool, as sentences; empty for a sound one. */
  check(): string[] {
    const problems: string[] = [];
    const free = new Set(this.unowned);
    if (free.size !== this.unowned.length) problems.push("A page is twice in the free list.");
    for (const [page, count] of this.owned.entries()) {
      if (count < 0 || (count === 0) !== free.has(page)) {
        const also = free.has(page) ? "also" : "not";
        problems.push(`Page ${page} has ${count} owners and is ${also} free.`);
      }
    }
    if (this.unowned.some((page, i) => page >= (this.unowned[i - 1] ?? Number.POSITIVE_INFINITY))) {
      problems.push("The free list is out of order.");
    }
    return problems;
  }
}

function wrong(message: string): EdgewiseError {
  return new EdgewiseError("input.pages", message);
}
