/** How many of an answer's tokens were thought, by the rules of the Python SDK's `hosting/thoughts.py`. */

import type { Parser } from "../calls/parser.ts";
import type { Completion } from "../client/types.ts";
import { AnswerReader, type Parse } from "./answer.ts";

/** Characters that tell the end of a thought. */
const TAIL = 64;

/** The text of tokens, special ones written out. */
export interface Decoding {
  decode(ids: readonly number[]): string;
}

/** Reads an answer, and counts what of it was thought. */
export class CountingReader extends AnswerReader {
  private readonly tokenizer: Decoding | null;

  /** @param tokenizer null where nobody counts. */
  constructor(
    parser: Pick<Parser, "feed" | "end">,
    parse: Parse | null,
    tokenizer: Decoding | null,
  ) {
    super(parser, parse);
    this.tokenizer = tokenizer;
  }

  override completed(completion: Completion): Completion {
    const told = super.completed(completion);
    if (!this.tokenizer) return told;
    return { ...told, thoughtTokens: thoughtTokens(told.reasoning, told.tokenIds, this.tokenizer) };
  }
}

/**
 * The tokens of an answer up to the last that has some of its thought.
 *
 * Marks before it and between its parts count, the one behind it does not.
 *
 * @param thought all of it, as it was read.
 * @param tokenIds of the answer.
 */
export function thoughtTokens(
  thought: string,
  tokenIds: readonly number[],
  tokenizer: Decoding,
): number {
  const trimmed = thought.trim();
  const end = trimmed === "" ? null : endOf(trimmed, tokenizer.decode(tokenIds));
  if (end === null) return 0;
  let [low, high] = [0, tokenIds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    // What ends within a character has a sign in its place: texts of more tokens are no shorter.
    if (tokenizer.decode(tokenIds.slice(0, middle + 1)).length < end) low = middle + 1;
    else high = middle;
  }
  return 1 + low;
}

/**
 * Where a thought ends in a text; null where it is not in it.
 *
 * One that has several parts, with marks or more between them, ends with the last of them, which is not before all
 * of it would fit.
 */
function endOf(thought: string, text: string): number | null {
  const tails = Array.from({ length: Math.min(TAIL, thought.length) }, (_, less) => less + 1);
  for (const size of [thought.length, ...tails.reverse()]) {
    const at = text.indexOf(thought.slice(-size), thought.length - size);
    if (at >= 0) return at + size;
  }
  return null;
}
