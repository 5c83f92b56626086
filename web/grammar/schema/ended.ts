/** Rules without what no text ever ends. */

import { endingRules } from "../endings.ts";
import { type Node, simplified } from "../nodes.ts";

export interface Ended {
  readonly root: Node;
  readonly rules: ReadonlyMap<string, Node>;
}

/**
 * The node and the rules that it needs, without alternatives and repetitions that never end; null
 * where nothing is left.
 */
export function ended(root: Node, rules: ReadonlyMap<string, Node>): Ended | null {
  const ending = endingRules(rules);
  const node = without(root, ending);
  if (node === null) return null;
  const found = new Map<string, Node>();
  const waiting = [...references(node)];
  for (const name of waiting) {
    const rule = rules.get(name); // waiting grows meanwhile
    const inner = rule && !found.has(name) ? without(rule, ending) : null;
    if (inner === null) continue;
    found.set(name, inner);
    for (const other of references(inner)) waiting.push(other);
  }
  return { root: node, rules: found };
}

/** A node without rules that do not end; null where it does not end itself. */
function without(node: Node, ending: ReadonlySet<string>): Node | null {
  const made = pruned(node, ending);
  return made === null ? null : simplified(made);
}

function pruned(node: Node, ending: ReadonlySet<string>): Node | null {
  switch (node.kind) {
    case "rule":
      return ending.has(node.name) ? node : null;
    case "sequence":
    case "choice": {
      const some = node.items.map((item) => pruned(item, ending));
      const items = some.filter((item) => item !== null);
      const ends = node.kind === "sequence" ? items.length === some.length : items.length > 0;
      return ends ? { ...node, items } : null;
    }
    case "repeat": {
      const item = pruned(node.item, ending);
      if (item !== null) return { ...node, item };
      return node.least > 0 ? null : { kind: "sequence", items: [] };
    }
    default:
      return node;
  }
}

function* references(node: Node): Generator<string> {
  if (node.kind === "rule") yield node.name;
  else if (node.kind === "repeat") yield* references(node.item);
  else if (node.kind === "sequence" || node.kind === "choice") {
    for (const item of node.items) yield* references(item);
  }
}
