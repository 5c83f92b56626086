/** Rules that no text ever ends, and rules that begin with themselves. */

import type { Node } from "./nodes.ts";

type Rules = ReadonlyMap<string, Node>;

/** The first rule that has no text, since each would hold another of it; null if all have. */
export function endlessRule(rules: Rules): string | null {
  const ending = endingRules(rules);
  return [...rules.keys()].find((name) => !ending.has(name)) ?? null;
}

/** The rules that have a text. */
export function endingRules(rules: Rules): ReadonlySet<string> {
  return thoseWith(rules, true);
}

/**
 * A rule that may begin with itself before any character, or null.
 *
 * Rules are taken away that begin with none that is left (Kahn 1962); from what stays, each rule
 * leads to another that stays, and so to one that comes again.
 */
export function leftRecursiveRule(rules: Rules): string | null {
  const empty = emptyRules(rules);
  const begins = new Map<string, ReadonlySet<string>>();
  const users = new Map<string, string[]>();
  for (const [name, node] of rules) {
    begins.set(name, new Set(beginnings(node, empty)));
    users.set(name, []);
  }
  for (const [name, others] of begins) {
    for (const other of others) users.get(other)?.push(name);
  }
  const left = new Map([...begins].map(([name, others]) => [name, others.size]));
  const free = [...left].filter(([, count]) => count === 0).map(([name]) => name);
  for (let taken = free.pop(); taken !== undefined; taken = free.pop()) {
    for (const user of users.get(taken) ?? []) {
      const count = (left.get(user) ?? 0) - 1;
      left.set(user, count);
      if (count === 0) free.push(user);
    }
  }
  const stays = (name: string) => (left.get(name) ?? 0) > 0;
  let name = [...left.keys()].find(stays);
  const seen = new Set<string>();
  while (name !== undefined && !seen.has(name)) {
    seen.add(name);
    name = [...(begins.get(name) ?? [])].find(stays);
  }
  return name ?? null;
}

/** The rules that the empty text is one of. */
export function emptyRules(rules: Rules): ReadonlySet<string> {
  return thoseWith(rules, false);
}

/**
 * Rules with a property that characters have by `leaves`, items in a row if all have it, a choice if
 * one has it, and what may be repeated no times always has. Linear in the nodes.
 */
function thoseWith(rules: Rules, leaves: boolean): ReadonlySet<string> {
  /** Of each node, how many of its items must still be found to have it. */
  const needs: number[] = [];
  const parents: number[] = [];
  const roots = new Map<number, string>();
  const users = new Map<string, number[]>();
  for (const name of rules.keys()) users.set(name, []);
  const ready: number[] = [];

  const add = (node: Node, parent: number): number => {
    const at = needs.length;
    const [need, items] = needed(node, leaves);
    if (node.kind === "rule") users.get(node.name)?.push(at);
    needs.push(need);
    parents.push(parent);
    if (need === 0) ready.push(at);
    for (const item of items) add(item, at);
    return at;
  };

  for (const [name, node] of rules) roots.set(add(node, -1), name);
  const found = new Set<string>();
  for (let at = ready.pop(); at !== undefined; at = ready.pop()) {
    const name = roots.get(at);
    if (name !== undefined) found.add(name);
    for (const above of name === undefined ? [parents[at] ?? -1] : (users.get(name) ?? [])) {
      const left = (needs[above] ?? 0) - 1;
      needs[above] = left;
      if (left === 0) ready.push(above);
    }
  }
  return found;
}

/** How many of which items of a node must have the property for the node to have it. */
function needed(node: Node, leaves: boolean): [number, readonly Node[]] {
  switch (node.kind) {
    case "sequence":
      return [node.items.length, node.items];
    case "choice":
      return [1, node.items];
    case "repeat":
      return node.least > 0 ? [1, [node.item]] : [0, []];
    case "rule":
      return [1, []];
    default:
      return [leaves ? 0 : 1, []];
  }
}

/** Rules that a node may begin with. */
function* beginnings(node: Node, empty: ReadonlySet<string>): Generator<string> {
  if (node.kind === "rule") yield node.name;
  else if (node.kind === "repeat") yield* beginnings(node.item, empty);
  else if (node.kind === "choice") for (const item of node.items) yield* beginnings(item, empty);
  else if (node.kind === "sequence") {
    for (const item of node.items) {
      yield* beginnings(item, empty);
      if (!mayBeEmpty(item, empty)) return;
    }
  }
}

/** Whether the empty text is one of a node's, where `empty` are the rules of which it is one. */
export function mayBeEmpty(node: Node, empty: ReadonlySet<string>): boolean {
  switch (node.kind) {
    case "rule":
      return empty.has(node.name);
    case "sequence":
      return node.items.every((item) => mayBeEmpty(item, empty));
    case "choice":
      return node.items.some((item) => mayBeEmpty(item, empty));
    case "repeat":
      return node.least === 0 || mayBeEmpty(node.item, empty);
    default:
      return false;
  }
}
