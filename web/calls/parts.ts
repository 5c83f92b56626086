/** How much the grammar of a call may come to. As in Python's `calls/parts.py`. */

import type { Node } from "../grammar/nodes.ts";
import { refused } from "./refusing.ts";

/** Nodes of all tools. */
export const MAX_PARTS = 50_000;

/** Counts what is made, and refuses what is too much of it. */
export class Parts {
  private left = MAX_PARTS;

  /**
   * Count nodes with all that is in them.
   *
   * @throws EdgewiseError `unsupported.tool_choice`.
   */
  add(nodes: Iterable<Node>): void {
    for (const node of nodes) this.left -= size(node);
    if (this.left < 0)
      throw refused(`The tools come to more than ${MAX_PARTS} parts of a grammar.`);
  }
}

function size(node: Node): number {
  if (node.kind === "repeat") return 1 + size(node.item);
  if (node.kind !== "sequence" && node.kind !== "choice") return 1;
  return node.items.reduce((sum, item) => sum + size(item), 1);
}
