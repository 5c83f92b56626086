/**
 * The arguments of a tool's call as each notation writes them: nodes that follow its schema. As in Python's
 * `calls/arguments.py`.
 */

import { shorten } from "../errors.ts";
import { plain } from "../grammar/escapes.ts";
import type { Node } from "../grammar/nodes.ts";
import { schemaRules } from "../grammar/schema/lower.ts";
import type { Spelling } from "./format.ts";
import { pythonArguments, xmlArguments } from "./members.ts";
import { byName } from "./ordering.ts";
import { refused } from "./refusing.ts";
import { respelled, respelling } from "./respelling.ts";
import type { CalledTool } from "./tool.ts";

type Rules = Map<string, Node>;

const NOTATIONS: Readonly<
  Record<Spelling["arguments"], (tool: CalledTool, spelling: Spelling, rules: Rules) => Node>
> = { json, gemma, xml: xmlArguments, python: pythonArguments };

/**
 * The node of a tool's arguments.
 *
 * @param rules those that the node needs are added.
 * @throws EdgewiseError `input.schema` for what is no schema; `unsupported.schema` for what no grammar is made of;
 *   `unsupported.tool_choice` for what the notation cannot write.
 */
export function argumentsOf(tool: CalledTool, spelling: Spelling, rules: Rules): Node {
  return NOTATIONS[spelling.arguments](tool, spelling, rules);
}

function json(tool: CalledTool, _: Spelling, rules: Rules): Node {
  return schemaRules(ofObjects(tool), rules, tool.prefix);
}

function gemma(tool: CalledTool, { quote }: Spelling, rules: Rules): Node {
  const how = respelling({
    quote,
    escape: plain,
    avoided: quote,
    words: new Map([
      [", ", ","],
      [": ", ":"],
    ]),
    bareKeys: true,
  });
  const given: Rules = new Map();
  // Gemma's templates sort the arguments of calls.
  const node = schemaRules(byName(ofObjects(tool)), given, tool.prefix);
  return respelled(node, given, rules, tool.prefix, how);
}

/** A tool's schema without values that are no objects: arguments are always one. */
function ofObjects(tool: CalledTool): Readonly<Record<string, unknown>> {
  const said = Object.hasOwn(tool.schema, "type") ? tool.schema.type : "object";
  if (!(Array.isArray(said) ? said : [said]).includes("object")) {
    throw refused(
      `The arguments of ${shorten(tool.name)} are of type ${shorten(said)}, and no object.`,
    );
  }
  return { ...tool.schema, type: "object" };
}
