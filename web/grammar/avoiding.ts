/** Texts that do not have a mark in them. */

import type { Escape } from "./escapes.ts";
import type { Node } from "./nodes.ts";
import { characters, common, others, type Ranges } from "./ranges.ts";

const EMPTY: Node = { kind: "sequence", items: [] };

/**
 * Texts of a set of characters that do not have a mark in them, all of them.
 *
 * Such a text is one without the mark's first character, and then parts that begin with it, each of
 * which leaves the mark before it is complete. Nothing is repeated within a repetition, so the node
 * has as many parts as the mark has characters.
 *
 * @param mark two or more characters, the first of which comes only once.
 * @param ranges the set, not empty, and with more than beginnings of the mark in it.
 * @param least characters, 0 or 1.
 * @param ends the mark cannot go on behind the text. Where it could, texts that end in a beginning
 *   of the mark are left out.
 */
export function textsWithout(
  mark: string,
  ranges: Ranges,
  spell: Escape,
  least = 0,
  ends = true,
): Node {
  const first = characters(mark.charAt(0));
  const rest = common(ranges, others(first));
  const run: Node = rest.length > 0 ? several(spell(rest), 0, null) : EMPTY;
  if (common(ranges, first).length === 0) return several(spell(ranges), least, null);
  const inner = part(mark, 0, ranges, spell, run, true) ?? EMPTY;
  let parts: Node = several(inner, 0, null);
  let some: Node | null = { kind: "sequence", items: [inner, parts] };
  if (!ends) {
    const left = part(mark, 0, ranges, spell, run, false);
    some = left && { kind: "sequence", items: [parts, left] };
    parts = some ? several(some, 0, 1) : EMPTY;
  }
  if (least === 0) return { kind: "sequence", items: [run, parts] };
  const found: Node[] =
    rest.length > 0 ? [{ kind: "sequence", items: [spell(rest), run, parts] }] : [];
  return oneOf(some ? [...found, some] : found);
}

/** What begins with the mark from a place on, and leaves it; with `ends` it may just end. */
function part(
  mark: string,
  at: number,
  ranges: Ranges,
  spell: Escape,
  run: Node,
  ends: boolean,
): Node | null {
  const here = common(ranges, characters(mark.charAt(at)));
  const left = common(ranges, others(characters(mark.charAt(0) + mark.charAt(at))));
  const choices: Node[] = [];
  if (at > 0 && left.length > 0) choices.push({ kind: "sequence", items: [spell(left), run] });
  if (here.length > 0 && at + 1 < mark.length) {
    const behind = part(mark, at + 1, ranges, spell, run, ends);
    if (behind) choices.push({ kind: "sequence", items: [spell(here), behind] });
  }
  if (at > 0 && ends) choices.push(EMPTY);
  return choices.length > 0 ? oneOf(choices) : null;
}

function several(item: Node, least: number, most: number | null): Node {
  return { kind: "repeat", item, least, most };
}

function oneOf(items: readonly Node[]): Node {
  const [only] = items;
  return items.length === 1 && only ? only : { kind: "choice", items };
}
