/** Schemas that must hold together, lowered to nodes, each set of them once. */

import type { EdgewiseError } from "../../errors.ts";
import { type Node, simplified, toJson } from "../nodes.ts";
import { namedValues } from "./admitting.ts";
import { ANYTHING, choice, literal, rule } from "./anything.ts";
import { arrayNode } from "./arrays.ts";
import type { Context } from "./context.ts";
import { type Document, said } from "./document.ts";
import { exclusive } from "./exclusive.ts";
import { SAYING, type TypeName } from "./keywords.ts";
import { integerNode, numberNode } from "./numbers.ts";
import { objectNode } from "./objects.ts";
import { type Atoms, expanded, keyOf, Shape, whole } from "./shape.ts";
import { stringNode } from "./strings.ts";
import { lengthOf, spelled } from "./values.ts";

/** Nodes made, and schemas taken together, for one schema. */
const MAX_PARTS = 50_000;
/** Sets of schemas within one another. */
const MAX_WITHIN = 64;
/** Nodes up to which what is the same is written more than once. */
const INLINE = 12;

/** Nodes of one document's schemas, and the rules that they need. */
export class Lowering implements Context {
  readonly document: Document;
  /** What was made, under names that begin with the prefix. */
  readonly rules = new Map<string, Node>();
  readonly #taken: ReadonlyMap<string, Node>;
  readonly #prefix: string;
  readonly #known = new Map<string, Node | null>();
  readonly #underWay = new Map<string, string | null>();
  #parts = 0;
  #names = 0;

  constructor(document: Document, taken: ReadonlyMap<string, Node>, prefix: string) {
    this.document = document;
    this.#taken = taken;
    this.#prefix = prefix;
  }

  /**
   * A node whose texts are values under all of the schemas; null where there are none.
   *
   * @throws EdgewiseError `input.schema` for what is no schema; `unsupported.schema` for what is
   *   refused by name, or too large.
   */
  lower(atoms: Atoms): Node | null {
    const all = expanded(this.document, atoms);
    this.#spend(1 + atoms.length + (all?.length ?? 0));
    if (all === null) return null;
    const key = all.map(keyOf).join(" ");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const again = this.#underWay.get(key);
    if (again !== undefined) {
      const name = again ?? this.#name();
      this.#underWay.set(key, name);
      return rule(name);
    }
    if (this.#underWay.size >= MAX_WITHIN) {
      throw this.#tooLarge(`more than ${MAX_WITHIN} schemas within one another`);
    }
    this.#underWay.set(key, null);
    let node = this.#made(all);
    const name = this.#underWay.get(key) ?? null;
    this.#underWay.delete(key);
    if (name !== null) {
      this.rules.set(name, node ?? { kind: "choice", items: [] });
      node = rule(name);
    } else if (node !== null) node = this.shared(node);
    this.#known.set(key, node);
    return node;
  }

  /** The node, as a rule's where it is large. */
  shared(node: Node): Node {
    const made = simplified(node);
    const size = sizeOf(made);
    this.#spend(size);
    return size <= INLINE ? made : this.#rule(this.#name(), made);
  }

  /** The rule of any value of a kind. */
  anything(kind: string): Node {
    const name = `${this.#prefix}json_${kind}`;
    const node = ANYTHING.get(kind);
    if (node && !this.rules.has(name)) {
      this.rules.set(name, literal(""));
      this.rules.set(name, this.#renamed(node));
    }
    return rule(name);
  }

  #renamed(node: Node): Node {
    switch (node.kind) {
      case "rule":
        return this.anything(node.name);
      case "sequence":
      case "choice":
        return { ...node, items: node.items.map((item) => this.#renamed(item)) };
      case "repeat":
        return { ...node, item: this.#renamed(node.item) };
      default:
        return node;
    }
  }

  #made(atoms: Atoms): Node | null {
    const group = atoms.find((atom) => atom.part !== "own");
    if (!group) {
      const places = atoms.map((atom) => atom.place);
      return this.#ofShape(new Shape(this.document, places));
    }
    const rest = atoms.filter((atom) => atom !== group);
    const places = this.document.places(group.place, group.part);
    let branches: readonly Atoms[] = places.map((place) => [...rest, ...whole(place)]);
    if (group.part === "oneOf") branches = exclusive(this.document, group, branches);
    return either(branches.map((branch) => this.lower(branch)));
  }

  #ofShape(shape: Shape): Node | null {
    const values = namedValues(shape);
    if (values !== null) return either(values.map((value) => literal(spelled(value))));
    if (!shape.has("type", ...SAYING)) return this.anything("value");
    return either(shape.writtenTypes().map((each) => OF_TYPE[each](this, shape)));
  }

  #rule(name: string, node: Node): Node {
    this.rules.set(name, node);
    return rule(name);
  }

  #name(): string {
    const name = () => `${this.#prefix}value_${this.#names}`;
    this.#names += 1;
    while (this.#taken.has(name())) this.#names += 1;
    return name();
  }

  #spend(parts: number): void {
    this.#parts += parts;
    if (this.#parts > MAX_PARTS) throw this.#tooLarge(`more than ${said(MAX_PARTS)} parts`);
  }

  #tooLarge(what: string): EdgewiseError {
    return this.document.refused(0, `what comes to ${what}`);
  }
}

const OF_TYPE: Readonly<Record<TypeName, (context: Context, shape: Shape) => Node | null>> = {
  null: () => literal("null"),
  boolean: () => choice([literal("true"), literal("false")]),
  integer: integerNode,
  number: numberNode,
  string: stringNode,
  array: arrayNode,
  object: objectNode,
};

/** One of the nodes that there are. */
function either(nodes: readonly (Node | null)[]): Node | null {
  const some = new Map<string, Node>();
  for (const node of nodes) {
    if (node === null) continue;
    const key = JSON.stringify(toJson(node));
    if (!some.has(key)) some.set(key, node);
  }
  return some.size > 0 ? choice([...some.values()]) : null;
}

function sizeOf(node: Node): number {
  switch (node.kind) {
    case "literal":
      return 1 + Math.floor(lengthOf(node.text) / 16);
    case "sequence":
    case "choice":
      return node.items.reduce((sum, item) => sum + sizeOf(item), 1);
    case "repeat":
      return 1 + sizeOf(node.item);
    default:
      return 1;
  }
}
