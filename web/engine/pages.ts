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
  /** Pages that were given back. Those from `touched` on never had an owner. */
  private readonly given = new Lowest();
  private touched = 0;

  constructor(n: number) {
    if (!Number.isInteger(n) || n < 1) throw wrong(`A pool needs at least one page, not ${n}.`);
    this.owned = new Array<number>(n).fill(0);
  }

  /** Pages in all. */
  get size(): number {
    return this.owned.length;
  }

  /** Have so many pages in all, if there are fewer: the new ones are free. */
  grow(n: number): void {
    while (this.size < n) this.owned.push(0);
  }

  /** Have so few pages, or as many more as the last one that is owned asks for: how many there are then. */
  shrink(least: number): number {
    let size = this.size;
    while (size > Math.max(least, 1) && this.owned[size - 1] === 0) size -= 1;
    this.owned.length = size;
    this.touched = Math.min(this.touched, size);
    this.given.forget(size);
    return size;
  }

  /** How many pages are free. */
  get free(): number {
    return this.given.size + this.size - this.touched;
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
    const taken = Array.from({ length: k }, () => this.given.take() ?? this.touched++);
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
    for (const [page, count] of counts) {
      const left = this.owners(page) - count;
      this.owned[page] = left;
      if (left === 0) this.given.put(page);
    }
  }

  /** What is inconsistent about the pool, as sentences; empty for a sound one. */
  check(): string[] {
    const problems: string[] = [];
    const free = new Set(this.given.numbers);
    if (free.size !== this.given.size) problems.push("A page is twice in the free list.");
    for (const [page, count] of this.owned.entries()) {
      if (count < 0 || (count === 0) !== (free.has(page) || page >= this.touched)) {
        const also = count === 0 ? "not" : "also";
        problems.push(`Page ${page} has ${count} owners and is ${also} free.`);
      }
    }
    return problems;
  }
}

/** Numbers of which the lowest is taken first: a binary heap. */
class Lowest {
  numbers: number[] = [];

  /** Numbers from `limit` on are none of these any more. */
  forget(limit: number): void {
    this.numbers = this.numbers.filter((number) => number < limit).sort((a, b) => a - b);
  }

  get size(): number {
    return this.numbers.length;
  }

  put(number: number): void {
    const { numbers } = this;
    let at = numbers.length;
    for (let above = (at - 1) >> 1; at > 0; at = above, above = (at - 1) >> 1) {
      const parent = numbers[above] ?? 0;
      if (parent <= number) break;
      numbers[at] = parent;
    }
    numbers[at] = number;
  }

  take(): number | undefined {
    const { numbers } = this;
    const [lowest] = numbers;
    const last = numbers.pop();
    if (last === undefined || numbers.length === 0) return lowest;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if ((numbers[below + 1] ?? last) < (numbers[below] ?? last)) below += 1;
      const least = numbers[below] ?? last;
      if (least >= last) break;
      numbers[at] = least;
      at = below;
    }
    numbers[at] = last;
    return lowest;
  }
}

function wrong(message: string): EdgewiseError {
  return new EdgewiseError("input.pages", message);
}
