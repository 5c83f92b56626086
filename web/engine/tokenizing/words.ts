/** Models of whole words: WordPiece, which cuts those that it does not know, and WordLevel. */

import type { JsonObject } from "../json.ts";
import type { Vocabulary } from "../rules.ts";
import type { Model } from "./model.ts";

/** Of each word the longest token that it begins with, then of the rest the longest, and so on. */
export class WordPiece implements Model {
  private readonly most: number;
  private readonly prefix: string;
  private readonly unknown: string;
  private readonly longest: number;

  /** @throws TypeError for a part that is missing. */
  constructor(
    spec: JsonObject,
    private readonly vocabulary: Vocabulary,
  ) {
    const { unk_token, continuing_subword_prefix: prefix, max_input_chars_per_word: most } = spec;
    if (typeof unk_token !== "string") throw new TypeError("it has no unk_token");
    if (typeof prefix !== "string") throw new TypeError("it has no continuing_subword_prefix");
    if (typeof most !== "number") throw new TypeError("it has no max_input_chars_per_word");
    this.most = most;
    this.prefix = prefix;
    this.unknown = unk_token;
    let longest = 0;
    for (const token of vocabulary.keys()) longest = Math.max(longest, token.length);
    this.longest = longest;
  }

  ids(text: string): readonly number[] {
    // As many characters have at most twice as many units.
    if (text.length > 2 * this.most || [...text].length > this.most) return [this.other()];
    const ids: number[] = [];
    for (let start = 0; start < text.length; ) {
      const before = start > 0 ? this.prefix : "";
      let end = Math.min(text.length, start + this.longest);
      let id: number | undefined;
      for (; end > start && id === undefined; end--) {
        id = this.vocabulary.get(before + text.slice(start, end));
      }
      if (id === undefined) return [this.other()];
      ids.push(id);
      start = end + 1;
    }
    return ids;
  }

  private other(): number {
    const id = this.vocabulary.get(this.unknown);
    if (id === undefined) throw new TypeError("its unk_token is no token");
    return id;
  }
}

/** Each word is a token, or unknown. */
export class WordLevel implements Model {
  private readonly unknown: string;

  /** @throws TypeError where nothing is said of unknown words. */
  constructor(
    spec: JsonObject,
    private readonly vocabulary: Vocabulary,
  ) {
    if (typeof spec.unk_token !== "string") throw new TypeError("it has no unk_token");
    this.unknown = spec.unk_token;
  }

  ids(text: string): readonly number[] {
    const id = this.vocabulary.get(text) ?? this.vocabulary.get(this.unknown);
    if (id === undefined) throw new TypeError("its unk_token is no token");
    return [id];
  }
}
