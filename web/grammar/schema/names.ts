/** Names that are none of some others. */

import { jsonEscape } from "../escapes.ts";
import type { Node } from "../nodes.ts";
import { characters, others } from "../ranges.ts";
import { CHARACTER, choice, QUOTE, repeat, sequence } from "./anything.ts";
import type { Context } from "./context.ts";

/** Characters of a name that are told apart: names that begin alike up to here are not written. */
const MOST = 40;
const REST = repeat(CHARACTER, 0, null);

/**
 * A name in quotes that is none of the names: one that leaves them at some character, or ends
 * within one.
 */
export function otherName(context: Context, names: readonly string[]): Node {
  const written = names.map((name) => [...name]);
  return sequence(QUOTE, beside(context, written, 0), QUOTE);
}

/** What comes after the first `at` characters, which are those of all the names. */
function beside(context: Context, names: readonly (readonly string[])[], at: number): Node {
  const following = new Map<string, (readonly string[])[]>();
  for (const name of names) {
    const character = name[at];
    if (character === undefined) continue;
    const some = following.get(character);
    if (some) some.push(name);
    else following.set(character, [name]);
  }
  const choices: Node[] = names.some((name) => name.length === at) ? [] : [sequence()];
  const free = others(characters([...following.keys()].join("")));
  choices.push(sequence(jsonEscape(free), REST));
  for (const [character, some] of at < MOST ? following : []) {
    choices.push(sequence(jsonEscape(characters(character)), beside(context, some, at + 1)));
  }
  return context.shared(choice(choices));
}
