/**
 * Taking added tokens out of a text.
 *
 * The tokenizers package first takes out of the raw text those that are not normalized, then the
 * others out of what normalizing makes of the rest; leftmost first, and of those the longest.
 */

import type { AddedToken } from "../tokens.ts";
import { longest, type Trie, trieOf } from "../trie.ts";
import { SPACE, WORD } from "./characters.ts";
import type { Piece } from "./pre-tokenizers.ts";

/** A part of a text: the id of an added token, or what is left to tokenize. */
export type Part = Piece | number;

const WORD_END = new RegExp(`[${WORD}]$`, "u");
const WORD_START = new RegExp(`^[${WORD}]`, "u");
const WHITE = new RegExp(`^[${SPACE}]$`, "u");

/** Finds some added tokens. */
export class Finder {
  private readonly trie: Trie;
  private readonly tokens: ReadonlyMap<string, AddedToken>;

  /** @param written how each token is written in the texts that are looked at. */
  constructor(tokens: readonly AddedToken[], written: (content: string) => string) {
    // Of two that are written alike the first is found.
    this.tokens = new Map(tokens.toReversed().map((token) => [written(token.content), token]));
    this.trie = trieOf(this.tokens.keys());
  }

  /** The parts of a piece of text in order, none of them empty. */
  parts({ text, first }: Piece): Part[] {
    const parts: Part[] = [];
    let kept = 0;
    const keep = (end: number) => {
      if (kept < end) parts.push({ text: text.slice(kept, end), first: first && kept === 0 });
    };
    for (let at = 0; at < text.length; ) {
      const end = longest(text, at, this.trie);
      const token = end > at ? this.tokens.get(text.slice(at, end)) : undefined;
      if (token && (!token.single_word || isWord(text, at, end))) {
        const [before, after] = this.taken(text, at, end, token, kept);
        keep(before);
        parts.push(token.id);
        kept = after;
      }
      at = Math.max(end, at + 1);
    }
    keep(text.length);
    return parts;
  }

  /** From where to where a token takes a text, with the white space beside it. */
  private taken(text: string, start: number, end: number, token: AddedToken, kept: number) {
    let [before, after] = [start, end];
    if (token.lstrip) {
      while (before > 0 && WHITE.test(text.charAt(before - 1))) before -= 1;
      before = Math.max(before, kept);
    }
    while (token.rstrip && WHITE.test(text.charAt(after))) after += 1;
    return [before, after] as const;
  }
}

/** Whether no letter or digit stands right before or right after a part of a text. */
function isWord(text: string, start: number, end: number): boolean {
  return (
    !WORD_END.test(text.slice(Math.max(0, start - 2), start)) &&
    !WORD_START.test(text.slice(end, end + 2))
  );
}
