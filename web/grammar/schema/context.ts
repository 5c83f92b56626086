/** What the lowering of one type of value asks of the lowering of all. */

import type { Node } from "../nodes.ts";
import type { Document } from "./document.ts";
import type { Atoms } from "./shape.ts";

export interface Context {
  readonly document: Document;
  /** A node of schemas that must hold together; null where nothing does. */
  lower(atoms: Atoms): Node | null;
  /** The node, as a rule's where it is large. */
  shared(node: Node): Node;
  /** The rule of any value of a kind. */
  anything(kind: string): Node;
}
