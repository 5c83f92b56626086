/** Grammars that people write: GBNF (llama.cpp, xgrammar's EBNF) or Lark (llguidance). */

import { EdgewiseError, shorten } from "../errors.ts";
import { readGbnf } from "./gbnf.ts";
import { readLark } from "./lark.ts";
import type { Grammar } from "./nodes.ts";

export type WrittenSyntax = "gbnf" | "lark";

const READERS = { gbnf: readGbnf, lark: readLark } as const;
const BLANK = /(?:[ \t\r\n]+|#[^\n]*|\/\/[^\n]*)*/y;
const BEGINNINGS: readonly (readonly [WrittenSyntax, RegExp])[] = [
  ["gbnf", /[A-Za-z_][A-Za-z0-9_.-]*[ \t\r\n]*::=/y],
  ["lark", /%|[?!]*[A-Za-z_][A-Za-z0-9_]*[ \t]*(?:[.:{]|$)/y],
];

/**
 * The grammar that a text is, in the syntax named or the one that its first rule is in.
 *
 * @throws EdgewiseError `input.grammar`, with line and column, and `input.regex` for a regular
 *   expression in it; `unsupported.grammar` and `unsupported.regex` for what is refused by name.
 */
export function lowerGrammar(text: string, syntax?: WrittenSyntax): Grammar {
  return READERS[syntax ?? syntaxOf(text)](text);
}

/**
 * Which syntax a grammar is in: `name ::=` begins GBNF, `name:` or `%` Lark.
 *
 * @throws EdgewiseError `input.grammar` for something else.
 */
export function syntaxOf(text: string): WrittenSyntax {
  BLANK.lastIndex = 0;
  BLANK.test(text);
  const start = BLANK.lastIndex;
  for (const [syntax, beginning] of BEGINNINGS) {
    beginning.lastIndex = start;
    if (beginning.test(text)) return syntax;
  }
  throw new EdgewiseError(
    "input.grammar",
    `A grammar begins with ${shorten(text.slice(start, start + 40))}.`,
    "Rules are written `root ::= …` (GBNF) or `start: …` (Lark).",
  );
}
