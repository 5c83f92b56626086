/** What a script uses, found in its syntax tree: names, members, attributes and what it iterates. */

import { type ESTree, parseSync, Visitor } from "vite";

export interface Used {
  /** `name`, `Object.member`, `.member` and `<attribute`. */
  readonly names: ReadonlySet<string>;
  /** What is iterated by `for await`, as it is written. */
  readonly awaited: readonly string[];
}

/** @param file its ending says which language it is in. */
export function usedBy(file: string, code: string): Used {
  const { program, errors } = parseSync(file, code, { sourceType: "module" });
  if (errors.length > 0) throw new Error(`${file}: ${errors.map(({ message }) => message)}`);
  const names = new Set<string>();
  const awaited: string[] = [];
  new Visitor({
    Identifier: ({ name }) => void names.add(name),
    MemberExpression: (node) => {
      const member = memberOf(node);
      if (member === null) return;
      names.add(`.${member}`);
      const { object } = node;
      if (object.type === "Identifier") names.add(`${object.name}.${member}`);
      // As in `globalThis.navigator?.storage`.
      const inner = object.type === "MemberExpression" ? memberOf(object) : null;
      if (inner !== null) names.add(`${inner}.${member}`);
    },
    JSXAttribute: ({ name }) =>
      void names.add(`<${name.type === "JSXIdentifier" ? name.name : ""}`),
    ForOfStatement: (node) => {
      if (node.await) awaited.push(code.slice(node.right.start, node.right.end));
    },
  }).visit(program);
  return { names, awaited };
}

function memberOf({ computed, property }: ESTree.MemberExpression): string | null {
  if (!computed) return property.type === "Identifier" ? property.name : null;
  return property.type === "Literal" ? String(property.value) : null;
}
