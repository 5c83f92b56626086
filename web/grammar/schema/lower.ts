/**
 * JSON Schema lowered to a grammar: every text of it is JSON, and valid under the schema.
 *
 * Texts are canonical: on one line, with `", "` and `": "` as Python's `json.dumps` writes them,
 * names in the order of `properties`, characters spelled as `escapes` says, integers without a
 * point. Not every valid value is written: docs/decisions/0046-schemas.md says which are not.
 */

import { leftRecursiveRule } from "../endings.ts";
import type { Grammar, Node } from "../nodes.ts";
import { Document } from "./document.ts";
import { ended } from "./ended.ts";
import { Lowering } from "./lowering.ts";
import { whole } from "./shape.ts";

/**
 * The grammar of a schema's values.
 *
 * @param schema a schema as JSON is read.
 * @param prefix what names of rules begin with; a letter first, then letters, digits and `_`.
 * @throws EdgewiseError `input.schema` for what is no schema, or is too large;
 *   `unsupported.schema` for what is refused by name, with its place, and for a schema that nothing
 *   is valid under.
 */
export function lowerSchema(schema: unknown, prefix = ""): Grammar {
  const rules = new Map<string, Node>();
  const node = schemaRules(schema, rules, prefix);
  const root = `${prefix}root`;
  return { rules: new Map([[root, node], ...rules]), root };
}

/** The grammar of any JSON object. */
export function lowerJsonObject(): Grammar {
  return lowerSchema({ type: "object" });
}

/**
 * The node of a schema's values, for a place in a larger grammar.
 *
 * @param rules the larger grammar's, to which those are added that the node needs.
 * @param at names and indices that lead to the schema within `schema`, to which it may refer.
 * @throws EdgewiseError as `lowerSchema`.
 */
export function schemaRules(
  schema: unknown,
  rules: Map<string, Node>,
  prefix: string,
  at: readonly string[] = [],
): Node {
  const document = new Document(schema);
  const lowering = new Lowering(document, rules, prefix);
  const node = lowering.lower(whole(document.below(0, ...at)));
  const made = node === null ? null : ended(node, lowering.rules);
  if (made === null) throw document.refused(0, "a schema that nothing is valid under");
  if (leftRecursiveRule(new Map([["", made.root], ...made.rules])) !== null) {
    throw document.refused(0, "a schema that refers to itself, nothing between,");
  }
  for (const [name, rule] of made.rules) rules.set(name, rule);
  return made.root;
}
