/**
 * SentencePiece's unigram model: of all ways to make a text of tokens the likeliest.
 *
 * Viterbi's algorithm over the places of a text: a place's best way is the best one of all tokens
 * that end there. A character that no token is stands for itself as an unknown one, ten below the
 * least likely token; unknown ones side by side are one token.
 */

import { shorten } from "../../errors.ts";
import type { JsonObject } from "../json.ts";
import type { Vocabulary } from "../rules.ts";
import { inBytes } from "./bpe.ts";
import { bytesOf, type Model } from "./model.ts";
import { SortedTokens } from "./sorted.ts";

const UNKNOWN_PENALTY = 10;

export class Unigram implements Model {
  private readonly sorted: SortedTokens;
  private readonly scores: Float64Array;
  private readonly unknown: number | null;
  private readonly unknownScore: number;
  private readonly fallback: readonly (number | undefined)[];

  /** @throws TypeError for pairs that are no token and score, and an unknown one that is no token. */
  constructor(
    spec: JsonObject,
    private readonly vocabulary: Vocabulary,
  ) {
    const pairs = Array.isArray(spec.vocab) ? spec.vocab : [];
    this.scores = Float64Array.from(pairs, scoreOf);
    this.sorted = new SortedTokens(vocabulary);
    const { unk_id: unknown = null } = spec;
    if (unknown !== null && !(Number.isInteger(unknown) && Number(unknown) >= 0)) {
      throw new TypeError(`its unk_id is ${shorten(unknown)}`);
    }
    this.unknown = unknown === null ? null : Number(unknown);
    if (this.unknown !== null && this.unknown >= pairs.length) {
      throw new TypeError(`its unk_id is ${this.unknown}, of ${pairs.length} tokens`);
    }
    const least = this.scores.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
    this.unknownScore = least - UNKNOWN_PENALTY;
    this.fallback = spec.byte_fallback === true ? bytesOf(vocabulary) : [];
  }

  ids(text: string): readonly number[] {
    const { starts, tokens } = this.best(text);
    const ids: number[] = [];
    const put = (found: readonly number[]) => {
      for (let i = found.length - 1; i >= 0; i--) ids.push(found[i] ?? 0);
    };
    let unknownEnd = -1; // where a run of unknown ones ends, which is found from its end on
    for (let end = text.length; end > 0; ) {
      const [start, id] = [starts[end] ?? 0, tokens[end] ?? 0];
      if (id === this.unknown) {
        if (unknownEnd < 0) unknownEnd = end;
      } else {
        if (unknownEnd >= 0) put(this.whole(text.slice(end, unknownEnd)));
        unknownEnd = -1;
        ids.push(id);
      }
      end = start;
    }
    if (unknownEnd >= 0) put(this.whole(text.slice(0, unknownEnd)));
    return ids.reverse();
  }

  /** Where the best token that ends at each place begins, and which it is. */
  private best(text: string) {
    const starts = new Int32Array(text.length + 1).fill(-1);
    const tokens = new Int32Array(text.length + 1);
    const scores = new Float64Array(text.length + 1);
    const offer = (start: number, end: number, id: number, score: number) => {
      if ((starts[end] ?? 0) >= 0 && score <= (scores[end] ?? 0)) return;
      if (id < 0) throw new TypeError("it has no unk_id for what is no token");
      starts[end] = start;
      tokens[end] = id;
      scores[end] = score;
    };
    for (let at = 0; at < text.length; ) {
      const here = scores[at] ?? 0;
      const next = at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
      let single = false;
      this.sorted.eachFrom(text, at, (end, id) => {
        offer(at, end, id, here + (this.scores[id] ?? 0));
        single ||= end === next;
      });
      if (!single) offer(at, next, this.unknown ?? -1, here + this.unknownScore);
      at = next;
    }
    return { starts, tokens };
  }

  /** The ids of a text that is one token, or none. */
  private whole(text: string): readonly number[] {
    const id = this.vocabulary.get(text);
    if (id !== undefined) return [id];
    const bytes = this.fallback.length > 0 ? inBytes(text, this.fallback) : null;
    return bytes ?? [this.unknown ?? 0];
  }
}

function scoreOf(pair: unknown): number {
  const [token, score] = Array.isArray(pair) ? pair : [];
  if (Array.isArray(pair) && pair.length === 2 && typeof token === "string") {
    if (typeof score === "number") return score;
  }
  throw new TypeError(`${shorten(pair)} is no token and its score`);
}
