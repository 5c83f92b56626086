/** Alternatives as a tree of what they begin with, so that what several begin with is there once. */

import type { Node } from "./nodes.ts";
import { bytesOf } from "./utf8.ts";

/** A byte, or a node other than a text or a row. */
export type Atom = number | Node;

/** A place in the tree. */
export interface Branch {
  /** What may come, by what tells atoms apart, and where it leads. */
  readonly next: Map<number, { readonly atom: Atom; readonly branch: Branch }>;
  /** Whether an alternative ends here. */
  ends: boolean;
}

/** Tells nodes apart by what they are: equal ones have the same number. */
export class Identities {
  private readonly numbers = new Map<string, number>();
  private readonly known = new WeakMap<Node, number>();

  of(node: Node): number {
    const found = this.known.get(node);
    if (found !== undefined) return found;
    const key = this.key(node);
    const number = this.numbers.get(key) ?? this.numbers.size;
    this.numbers.set(key, number);
    this.known.set(node, number);
    return number;
  }

  private key(node: Node): string {
    switch (node.kind) {
      case "literal":
        return `literal ${node.text}`;
      case "chars":
        return `chars ${node.ranges.join(";")}`;
      case "sequence":
      case "choice":
        return `${node.kind} ${node.items.map((item) => this.of(item)).join(",")}`;
      case "repeat":
        return `repeat ${this.of(node.item)} ${node.least} ${node.most}`;
      case "rule":
        return `rule ${node.name}`;
    }
  }
}

/** The tree of alternatives: all its places, each before those below it. */
export function branchesOf(items: readonly Node[], identities: Identities): readonly Branch[] {
  const root: Branch = { next: new Map(), ends: false };
  const branches = [root];
  for (const item of alternatives(items)) {
    let at = root;
    for (const atom of atoms(item)) {
      const key = typeof atom === "number" ? atom : 256 + identities.of(atom);
      let next = at.next.get(key);
      if (!next) {
        next = { atom, branch: { next: new Map(), ends: false } };
        branches.push(next.branch);
        at.next.set(key, next);
      }
      at = next.branch;
    }
    at.ends = true;
  }
  return branches;
}

function* alternatives(items: readonly Node[]): Generator<Node> {
  for (const item of items) {
    if (item.kind === "choice") yield* alternatives(item.items);
    else yield item;
  }
}

function* atoms(node: Node): Generator<Atom> {
  if (node.kind === "literal") yield* bytesOf(node.text);
  else if (node.kind === "sequence") for (const item of node.items) yield* atoms(item);
  else yield node;
}
