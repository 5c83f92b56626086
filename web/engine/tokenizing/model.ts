/** What gives the pieces of a text their ids. */

import type { Vocabulary } from "../rules.ts";
import { byteToken } from "./bytes.ts";

export interface Model {
  /**
   * The ids of one piece of text, which is not empty.
   *
   * @throws TypeError, in words, where the tokenizer has none for it.
   */
  ids(text: string): readonly number[];
}

/** The ids of the tokens that stand for one byte each. */
export function bytesOf(vocabulary: Vocabulary): (number | undefined)[] {
  return Array.from({ length: 256 }, (_, byte) => vocabulary.get(byteToken(byte)));
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
