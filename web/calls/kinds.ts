/**
 * Which kinds of values a grammar of JSON has texts of, told by the characters they begin with. As in Python's
 * `calls/kinds.py`.
 */

import type { Node } from "../grammar/nodes.ts";

const KINDS: ReadonlyMap<string, string> = new Map([
  ['"', "string"],
  ["{", "object"],
  ["[", "array"],
  ["t", "boolean"],
  ["f", "boolean"],
  ["n", "null"],
]);

/** The types of a node's texts; of numbers only that they are numbers. */
export function kindsOf(node: Node, rules: ReadonlyMap<string, Node>): ReadonlySet<string> {
  const found = new Set<string>();
  begin(node, rules, found, new Set());
  return new Set([...found].map((character) => KINDS.get(character) ?? "number"));
}

/**
 * Add the characters that texts of a node begin with; return whether one may be empty.
 *
 * No rule of a value may be empty, so what is known of one that was seen is that it is not.
 */
function begin(
  node: Node,
  rules: ReadonlyMap<string, Node>,
  found: Set<string>,
  seen: Set<string>,
): boolean {
  switch (node.kind) {
    case "literal":
      if (node.text) found.add(node.text.charAt(0));
      return !node.text;
    case "chars":
      found.add(String.fromCodePoint(node.ranges[0]?.[0] ?? 0));
      return false;
    case "sequence":
      return node.items.every((item) => begin(item, rules, found, seen));
    case "choice":
      return node.items.map((item) => begin(item, rules, found, seen)).includes(true);
    case "repeat":
      return begin(node.item, rules, found, seen) || node.least === 0;
    case "rule": {
      const inner = rules.get(node.name);
      if (seen.has(node.name) || !inner) return false;
      seen.add(node.name);
      return begin(inner, rules, found, seen);
    }
  }
}
