/** Byte-pair encoding: the two neighbours that were joined earliest in training, again and again. */

import { shorten } from "../../errors.ts";
import type { JsonObject } from "../json.ts";
import { MAX_ID, type Vocabulary } from "../rules.ts";
import { Heap } from "./heap.ts";
import { bytesOf, type Model, textOf } from "./model.ts";

const MOST_KNOWN = 10_000;
const LONGEST_KNOWN = 256;

/** Pairs of ids that are joined: when, and what they become. */
type Merges = ReadonlyMap<number, { readonly rank: number; readonly id: number }>;

const pairOf = (left: number, right: number) => left * MAX_ID + right;

export class Bpe implements Model {
  private readonly merges: Merges;
  private readonly fallback: readonly (number | undefined)[];
  private readonly known = new Map<string, readonly number[]>();
  private readonly unknown: number | null;
  private readonly prefix: string;
  private readonly suffix: string;

  /** @throws TypeError for merges of what is no token. */
  constructor(
    private readonly spec: JsonObject,
    private readonly vocabulary: Vocabulary,
  ) {
    this.prefix = textOf(spec.continuing_subword_prefix);
    this.suffix = textOf(spec.end_of_word_suffix);
    this.merges = this.joined();
    this.fallback = spec.byte_fallback === true ? bytesOf(vocabulary) : [];
    const unknown = spec.unk_token;
    this.unknown = typeof unknown === "string" ? (vocabulary.get(unknown) ?? -1) : null;
  }

  ids(text: string): readonly number[] {
    const whole = this.spec.ignore_merges === true ? this.vocabulary.get(text) : undefined;
    if (whole !== undefined) return [whole];
    const known = this.known.get(text);
    if (known) return known;
    const ids = merged(this.symbols(text), this.merges);
    if (text.length <= LONGEST_KNOWN) {
      if (this.known.size >= MOST_KNOWN) this.known.clear();
      this.known.set(text, ids);
    }
    return ids;
  }

  private joined(): Merges {
    const listed = Array.isArray(this.spec.merges) ? this.spec.merges : [];
    const idOf = (token: unknown) => {
      const id = typeof token === "string" ? this.vocabulary.get(token) : undefined;
      if (id === undefined) throw new TypeError(`it joins ${shorten(token)}, which is no token`);
      return id;
    };
    return new Map(
      listed.map((merge: unknown, rank) => {
        const pair: unknown = typeof merge === "string" ? merge.split(" ") : merge;
        if (!Array.isArray(pair) || pair.length !== 2) {
          throw new TypeError(`it joins ${shorten(merge)}`);
        }
        const [left, right] = pair;
        const ids = [idOf(left), idOf(right)] as const;
        if (!right.startsWith(this.prefix)) {
          throw new TypeError(`it joins ${shorten(merge)}, which does not go on with its prefix`);
        }
        return [pairOf(...ids), { rank, id: idOf(left + right.slice(this.prefix.length)) }];
      }),
    );
  }

  /** The ids of a text's characters. */
  private symbols(text: string): number[] {
    const ids: number[] = [];
    // One for what is unknown, which is only put down once it is clear how far that goes.
    let pending: number | null = null;
    const flush = () => {
      if (pending !== null) ids.push(pending);
      pending = null;
    };
    let at = 0;
    for (const character of text) {
      const before = at > 0 ? this.prefix : "";
      at += character.length;
      const symbol = before + character + (at === text.length ? this.suffix : "");
      const id = this.vocabulary.get(symbol);
      if (id !== undefined) {
        flush();
        ids.push(id);
        continue;
      }
      const bytes = this.fallback.length > 0 ? inBytes(symbol, this.fallback) : null;
      if (bytes) {
        ids.push(...bytes); // before what is pending, as in the package
        continue;
      }
      if (this.unknown === null) continue;
      if (this.unknown < 0) throw new TypeError("its unk_token is no token");
      if (this.spec.fuse_unk !== true) flush();
      pending = this.unknown;
    }
    flush();
    return ids;
  }
}

const utf8 = new TextEncoder();

/** Ids for each byte of a text; null where one has none. */
export function inBytes(text: string, fallback: readonly (number | undefined)[]): number[] | null {
  const ids: number[] = [];
  for (const byte of utf8.encode(text)) {
    const id = fallback[byte];
    if (id === undefined) return null;
    ids.push(id);
  }
  return ids;
}

/** Symbols joined as long as there are pairs to join, the earliest and leftmost first: n log n. */
function merged(symbols: number[], merges: Merges): readonly number[] {
  const count = symbols.length;
  if (count < 2) return symbols;
  const next = Int32Array.from({ length: count }, (_, i) => (i + 1 < count ? i + 1 : -1));
  const before = Int32Array.from({ length: count }, (_, i) => i - 1);
  const gone = new Uint8Array(count);
  const heap = new Heap();
  const at = (place: number) => symbols[place] ?? -1;
  const mergeAt = (place: number) => {
    const right = next[place] ?? -1;
    return right < 0 ? undefined : merges.get(pairOf(at(place), at(right)));
  };
  const offer = (place: number) => {
    const merge = place < 0 ? undefined : mergeAt(place);
    if (merge) heap.push(merge.rank, place);
  };
  for (let place = 0; place < count; place++) offer(place);
  for (let top = heap.pop(); top; top = heap.pop()) {
    const { rank, place } = top;
    const merge = gone[place] ? undefined : mergeAt(place);
    // What was offered before a neighbour changed is another pair now, or none.
    if (!merge || merge.rank !== rank) continue;
    const right = next[place] ?? -1;
    const after = next[right] ?? -1;
    symbols[place] = merge.id;
    gone[right] = 1;
    next[place] = after;
    if (after >= 0) before[after] = place;
    offer(before[place] ?? -1);
    offer(place);
  }
  return symbols.filter((_, place) => !gone[place]);
}
