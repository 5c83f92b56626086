/** Tokens in order, to find all that a place of a text begins with: in little memory, without a trie. */

import type { Vocabulary } from "../rules.ts";

export class SortedTokens {
  private readonly tokens: readonly string[];
  private readonly ids: Int32Array;
  /** Where the tokens with one first unit begin and end. */
  private readonly begins = new Map<number, readonly [number, number]>();

  constructor(vocabulary: Vocabulary) {
    // Sorted by UTF-16 units: those with one beginning lie together, the shortest of them first.
    this.tokens = [...vocabulary.keys()].filter((token) => token !== "").sort();
    this.ids = Int32Array.from(this.tokens, (token) => vocabulary.get(token) ?? -1);
    for (let at = 0; at < this.tokens.length; ) {
      const unit = this.unit(at, 0);
      const end = this.after(at, this.tokens.length, 0, unit);
      this.begins.set(unit, [at, end]);
      at = end;
    }
  }

  /** Call `found` with where each token ends that begins at a place, and its id; shortest first. */
  eachFrom(text: string, at: number, found: (end: number, id: number) => void): void {
    let [low, high] = this.begins.get(text.charCodeAt(at)) ?? [0, 0];
    for (let length = 1; low < high; length++) {
      if (this.tokens[low]?.length === length) found(at + length, this.ids[low] ?? -1);
      if (at + length >= text.length) return;
      const unit = text.charCodeAt(at + length);
      low = this.after(low, high, length, unit - 1);
      high = this.after(low, high, length, unit);
    }
  }

  /** The first of some tokens whose unit at a place is a greater one. */
  private after(low: number, high: number, place: number, unit: number): number {
    let [first, end] = [low, high];
    while (first < end) {
      const middle = (first + end) >> 1;
      if (this.unit(middle, place) > unit) end = middle;
      else first = middle + 1;
    }
    return first;
  }

  /** A unit of a token; below all others past its end. */
  private unit(token: number, place: number): number {
    const text = this.tokens[token] ?? "";
    return place < text.length ? text.charCodeAt(place) : -1;
  }
}
