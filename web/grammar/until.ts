/** Any text up to a mark. */

import { plain } from "./escapes.ts";
import type { Node } from "./nodes.ts";
import { characters, others } from "./ranges.ts";

/**
 * A node of all texts that end with a mark and have it nowhere before.
 *
 * That is the automaton of Knuth, Morris and Pratt: a rule for each beginning of the mark that the text so far may
 * end with.
 *
 * @param mark one or more characters.
 * @param rules those that are needed are added, under names with the prefix.
 */
export function until(mark: string, rules: Map<string, Node>, prefix: string): Node {
  const letters = [...mark];
  const beginning = (size: number) => letters.slice(0, size).join("");
  const after = (begun: string): Node => {
    let ending = letters.length;
    while (!begun.endsWith(beginning(ending))) ending -= 1;
    return ending === letters.length
      ? { kind: "sequence", items: [] }
      : { kind: "rule", name: `${prefix}${ending}` };
  };
  const known = [...new Set(letters)].sort();
  const other: Node = {
    kind: "sequence",
    items: [plain(others(characters(known.join("")))), { kind: "rule", name: `${prefix}0` }],
  };
  for (let size = 0; size < letters.length; size++) {
    const next = known.map((character): Node => {
      const items: Node[] = [
        { kind: "literal", text: character },
        after(beginning(size) + character),
      ];
      return { kind: "sequence", items };
    });
    rules.set(`${prefix}${size}`, { kind: "choice", items: [...next, other] });
  }
  return { kind: "rule", name: `${prefix}0` };
}
