/** Rules that are alike made one. */

import { references, renamed } from "./naming.ts";
import { type Grammar, toJson } from "./nodes.ts";

/** Rules are told apart by what is so many references away, and no more. */
const ROUNDS = 64;

/**
 * The same texts with fewer rules: of those that are written alike, and refer to rules that are alike
 * again, only the first stays. Where that takes too long to find out, all stay.
 *
 * At first all rules count as alike; they are told apart by what they are made of and by which of
 * those told apart they refer to, until no more are (Moore 1956, for automata).
 */
export function merged(grammar: Grammar): Grammar {
  const { rules, root } = grammar;
  const names = [...rules.keys()];
  const nameless = new Map(names.map((name) => [name, ""]));
  const shapes = new Map<string, number>();
  const shape = new Map<string, number>();
  const others = new Map<string, readonly string[]>();
  for (const [name, node] of rules) {
    shape.set(name, numberOf(JSON.stringify(toJson(renamed(node, nameless))), shapes));
    others.set(name, [...references(node)]);
  }
  let [group, count] = [shape, shapes.size];
  for (let round = 1; ; round++) {
    if (round > ROUNDS) return grammar;
    const found = new Map<string, number>();
    const next = new Map<string, number>();
    for (const name of names) {
      const beyond = (others.get(name) ?? []).map((other) => group.get(other));
      next.set(name, numberOf([shape.get(name), ...beyond].join(" "), found));
    }
    group = next;
    if (found.size === count) break;
    count = found.size;
  }
  const first = new Map<number | undefined, string>();
  for (const name of names) if (!first.has(group.get(name))) first.set(group.get(name), name);
  const kept = new Map(names.map((name) => [name, first.get(group.get(name)) ?? name]));
  const alike = new Set(first.values());
  const left = [...rules].filter(([name]) => alike.has(name));
  return {
    rules: new Map(left.map(([name, node]) => [name, renamed(node, kept)])),
    root: kept.get(root) ?? root,
  };
}

/** The number of a key, a new one where it has none. */
function numberOf(key: string, numbers: Map<string, number>): number {
  const number = numbers.get(key) ?? numbers.size;
  numbers.set(key, number);
  return number;
}
