/** Rules under the names that people chose, made a grammar under names of ours. */

import { EdgewiseError } from "../errors.ts";
import { endlessRule, leftRecursiveRule } from "./endings.ts";
import { type Grammar, type Node, simplified } from "./nodes.ts";

/** Parts of all rules once every counted repetition is written out. */
const MAX_UNROLLED = 200_000;

/**
 * The rules that `root` comes to, in the order in which it does, under names that grammars have:
 * small letters, digits and underscores, a number behind those that would be the same. Every rule
 * that one refers to must be there.
 *
 * @throws EdgewiseError `input.grammar` for rules that are too large, never end or begin with
 *   themselves.
 */
export function namedRules(rules: ReadonlyMap<string, Node>, root: string): Grammar {
  let size = 0;
  for (const node of rules.values()) size += unrolled(node);
  if (size > MAX_UNROLLED) {
    throw new EdgewiseError(
      "input.grammar",
      `A grammar has more than ${MAX_UNROLLED} parts once its counts are unrolled.`,
    );
  }
  const counts = new Map<string, number>();
  const names = new Map([[root, free(root, counts)]]);
  // A Map's iteration comes to what is added meanwhile.
  for (const name of names.keys()) {
    for (const other of references(nodeOf(rules, name))) {
      if (!names.has(other)) names.set(other, free(other, counts));
    }
  }
  const kept = new Map([...names.keys()].map((name) => [name, nodeOf(rules, name)]));
  const wrong = [
    [endlessRule(kept), "has no text that ends"],
    [leftRecursiveRule(kept), "may begin with itself: write it as a repetition"],
  ] as const;
  for (const [name, what] of wrong) {
    if (name === null) continue;
    const said = `The rule ${name.slice(0, 80)} of the grammar ${what}.`;
    throw new EdgewiseError("input.grammar", said);
  }
  const named = new Map<string, Node>();
  for (const [name, ours] of names) {
    named.set(ours, simplified(renamed(nodeOf(rules, name), names)));
  }
  return { rules: named, root: names.get(root) ?? root };
}

function nodeOf(rules: ReadonlyMap<string, Node>, name: string): Node {
  return rules.get(name) ?? { kind: "rule", name };
}

function unrolled(node: Node): number {
  switch (node.kind) {
    case "sequence":
    case "choice":
      return node.items.reduce((sum, item) => sum + unrolled(item), 1);
    case "repeat":
      return unrolled(node.item) * Math.max(1, node.least, node.most ?? 0);
    default:
      return 1;
  }
}

/** A name that is not in `counts`, in which it is put. */
function free(name: string, counts: Map<string, number>): string {
  const ours = name
    .toLowerCase()
    .replace(/^%+/, "")
    .replace(/[^a-z0-9_]/g, "_");
  const plain = /^[a-z]/.test(ours) ? ours : `r${ours}`;
  let found = plain;
  while (counts.has(found)) {
    const count = (counts.get(plain) ?? 1) + 1;
    counts.set(plain, count);
    found = `${plain}_${count}`;
  }
  counts.set(found, 1);
  return found;
}

/** The rules that a node refers to, in order. */
export function* references(node: Node): Generator<string> {
  if (node.kind === "rule") yield node.name;
  else if (node.kind === "repeat") yield* references(node.item);
  else if (node.kind === "sequence" || node.kind === "choice") {
    for (const item of node.items) yield* references(item);
  }
}

/** The same node with the rules it refers to under other names. */
export function renamed(node: Node, names: ReadonlyMap<string, string>): Node {
  switch (node.kind) {
    case "rule":
      return { kind: "rule", name: names.get(node.name) ?? node.name };
    case "sequence":
    case "choice":
      return { ...node, items: node.items.map((item) => renamed(item, names)) };
    case "repeat":
      return { ...node, item: renamed(node.item, names) };
    default:
      return node;
  }
}
