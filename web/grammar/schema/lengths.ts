/** Expressions whose texts have to be of some length. */

import { jsonEscape } from "../escapes.ts";
import type { Node } from "../nodes.ts";
import { literal, repeat, sequence } from "./anything.ts";
import { lengthOf, quoted } from "./values.ts";

/** The length of the shortest text of a node without rules. */
export function shortest(node: Node): number {
  switch (node.kind) {
    case "literal":
      return lengthOf(node.text);
    case "sequence":
      return sum(node.items.map(shortest));
    case "choice":
      return Math.min(...node.items.map(shortest));
    case "repeat":
      return shortest(node.item) * node.least;
    default:
      return 1;
  }
}

/** The length of the longest text of a node without rules; null where there is none such. */
export function longest(node: Node): number | null {
  return endless(node) === 0 ? longestOf(node) : null;
}

/**
 * The node with no text longer than `most`: each repetition without an end has an equal share of
 * what the others leave at their longest. Null where they leave nothing, or where such repetitions
 * are within one another.
 */
export function limited(node: Node, most: number): Node | null {
  const room = most - longestOf(node);
  const count = endless(node);
  if (count === null || room < 0) return null;
  return count > 0 ? shared(node, Math.floor(room / count)) : node;
}

/** What characters a node has, as they are spelled in a JSON string. */
export function inJson(node: Node): Node {
  switch (node.kind) {
    case "literal":
      return literal(quoted(node.text).slice(1, -1));
    case "chars":
      return jsonEscape(node.ranges);
    case "sequence":
    case "choice":
      return { ...node, items: node.items.map(inJson) };
    case "repeat":
      return { ...node, item: inJson(node.item) };
    default:
      return node;
  }
}

/**
 * The node with no text shorter than `least`: what is missing is added to how often the first
 * repetition that there is room in comes at least. Null where there is none.
 */
export function lengthened(node: Node, least: number): Node | null {
  const missing = least - shortest(node);
  if (missing <= 0) return node;
  const items = node.kind === "sequence" ? node.items : [node];
  for (const [i, item] of items.entries()) {
    if (item.kind !== "repeat" || shortest(item.item) === 0) continue;
    const often = item.least + Math.ceil(missing / shortest(item.item));
    if (item.most === null || often <= item.most) {
      const longer = repeat(item.item, often, item.most);
      return sequence(...items.slice(0, i), longer, ...items.slice(i + 1));
    }
  }
  return null;
}

/** How many repetitions without an end a text may hold; null where any number. */
function endless(node: Node): number | null {
  switch (node.kind) {
    case "sequence":
    case "choice": {
      const counts = node.items.map(endless);
      const known = counts.filter((count) => count !== null);
      if (known.length < counts.length) return null;
      return node.kind === "sequence" ? sum(known) : Math.max(...known);
    }
    case "repeat": {
      const inner = endless(node.item);
      if (node.most === null) return inner === 0 ? 1 : null;
      return inner === null ? null : inner * node.most;
    }
    default:
      return 0;
  }
}

/** The length of the longest text, of repetitions without an end at their least. */
function longestOf(node: Node): number {
  switch (node.kind) {
    case "literal":
      return lengthOf(node.text);
    case "sequence":
      return sum(node.items.map(longestOf));
    case "choice":
      return Math.max(...node.items.map(longestOf));
    case "repeat":
      return longestOf(node.item) * (node.most ?? node.least);
    default:
      return 1;
  }
}

/** The node with so many characters more for each repetition without an end. */
function shared(node: Node, share: number): Node {
  switch (node.kind) {
    case "sequence":
    case "choice":
      return { ...node, items: node.items.map((item) => shared(item, share)) };
    case "repeat": {
      if (node.most !== null) return { ...node, item: shared(node.item, share) };
      const more = Math.floor(share / Math.max(1, longestOf(node.item)));
      return repeat(node.item, node.least, node.least + more);
    }
    default:
      return node;
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((a, b) => a + b, 0);
}
