/** What GBNF and Lark share: alternatives of items in a row, each perhaps repeated. */

import type { Node } from "./nodes.ts";
import { type Counts, MAX_DEPTH, type Source } from "./source.ts";

/** What of it is written differently. */
export interface Syntax {
  /** What comes next, taken. */
  atom(depth: number): Node;
  /** How often what came is repeated, taken, where that is said. */
  counts(): Counts | null;
  /** Whether items in a row end before the next token; what belongs to them is taken. */
  ends(): boolean;
}

/**
 * Alternatives up to what ends them, groups of which are `depth` within one another.
 *
 * @throws EdgewiseError `input.grammar`, `unsupported.grammar`.
 */
export function readChoice(source: Source, syntax: Syntax, depth = 0): Node {
  if (depth > MAX_DEPTH) {
    const { at } = source.peek();
    throw source.wrong(`more than ${MAX_DEPTH} groups within one another`, at);
  }
  const first = row(source, syntax, depth);
  const items = [first];
  while (source.takes("|")) items.push(row(source, syntax, depth));
  return items.length === 1 ? first : { kind: "choice", items };
}

function row(source: Source, syntax: Syntax, depth: number): Node {
  const items: Node[] = [];
  while (!syntax.ends()) {
    const item = syntax.atom(depth);
    const counts = syntax.counts();
    if (counts) {
      items.push({ kind: "repeat", item, least: counts[0], most: counts[1] });
      const { at } = source.peek();
      if (syntax.counts()) {
        throw source.wrong("a repetition is repeated; put it in parentheses", at);
      }
    } else items.push(item);
  }
  const [only] = items;
  return items.length === 1 && only ? only : { kind: "sequence", items };
}
