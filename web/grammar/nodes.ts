/** The one grammar that every constraint is lowered to: plain data over Unicode code points. */

export type Node =
  | { readonly kind: "literal"; readonly text: string }
  | { readonly kind: "chars"; readonly ranges: readonly (readonly [number, number])[] }
  | { readonly kind: "sequence"; readonly items: readonly Node[] }
  | { readonly kind: "choice"; readonly items: readonly Node[] }
  | {
      readonly kind: "repeat";
      readonly item: Node;
      readonly least: number;
      readonly most: number | null;
    }
  | { readonly kind: "rule"; readonly name: string };

export interface Grammar {
  readonly rules: ReadonlyMap<string, Node>;
  readonly root: string;
}

export function toJson(node: Node): unknown {
  switch (node.kind) {
    case "literal":
      return ["literal", node.text];
    case "chars":
      return ["chars", node.ranges];
    case "sequence":
    case "choice":
      return [node.kind, node.items.map(toJson)];
    case "repeat":
      return ["repeat", toJson(node.item), node.least, node.most];
    case "rule":
      return ["rule", node.name];
  }
}

export function simplified(node: Node): Node {
  switch (node.kind) {
    case "sequence": {
      const flat: Node[] = [];
      for (const item of node.items.map(simplified)) {
        for (const each of item.kind === "sequence" ? item.items : [item]) {
          const before = flat.at(-1);
          if (before?.kind === "literal" && each.kind === "literal") {
            flat[flat.length - 1] = { kind: "literal", text: before.text + each.text };
          } else flat.push(each);
        }
      }
      const [only] = flat;
      return flat.length === 1 && only ? only : { kind: "sequence", items: flat };
    }
    case "choice": {
      const items = node.items.map(simplified);
      const [only] = items;
      return items.length === 1 && only ? only : { kind: "choice", items };
    }
    case "repeat":
      return { ...node, item: simplified(node.item) };
    default:
      return node;
  }
}
