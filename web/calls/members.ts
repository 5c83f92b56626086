/**
 * Arguments that are written one by one, each under its name: Python's, and XML-like ones. As in Python's
 * `calls/members.py`.
 */

import { isObject, type JsonObject } from "../engine/json.ts";
import { shorten } from "../errors.ts";
import { jsonEscape } from "../grammar/escapes.ts";
import type { Node } from "../grammar/nodes.ts";
import { characters, common, others, type Ranges } from "../grammar/ranges.ts";
import { choice, literal, optional, rule, sequence } from "../grammar/schema/anything.ts";
import { ANNOTATIONS } from "../grammar/schema/keywords.ts";
import { schemaRules } from "../grammar/schema/lower.ts";
import type { Spelling } from "./format.ts";
import { kindsOf } from "./kinds.ts";
import { refused } from "./refusing.ts";
import { respelled, respelling } from "./respelling.ts";
import { isName } from "./source.ts";
import type { CalledTool } from "./tool.ts";
import { readsBack, typesOf } from "./typed.ts";

const UNDERSTOOD: ReadonlySet<string> = new Set([
  ...ANNOTATIONS,
  ...["type", "properties", "required", "additionalProperties"],
]);
const PARAMETER = "<parameter=";
const PARAMETER_END = "</parameter>";
const XML = respelling({ avoided: PARAMETER_END, bareText: true });
const PYTHON = respelling({
  escape: pythonEscape,
  words: new Map([
    ["true", "True"],
    ["false", "False"],
    ["null", "None"],
  ]),
});

/** An argument: its name, its value as JSON, and the rules of that. */
interface Member {
  readonly name: string;
  readonly value: Node;
  readonly rules: ReadonlyMap<string, Node>;
  readonly required: boolean;
}

/** Arguments as Qwen3-Coder writes them: each in marks of its own, a text as it is. */
export function xmlArguments(tool: CalledTool, _: Spelling, rules: Map<string, Node>): Node {
  const found = membersOf(tool).map((member, at) => {
    const { name } = member;
    const types = typesOf({ [tool.name]: tool.schema }, tool.name, name);
    const properties = propertiesOf(tool);
    const schema = Object.hasOwn(properties, name) ? properties[name] : true;
    if (!readsBack(kindsOf(member.value, member.rules), types, schema)) {
      throw refused(
        `The argument ${shorten(name)} of ${shorten(tool.name)} may be a text or something else, which the ` +
          "notation does not tell apart.",
      );
    }
    const value = respelled(member.value, member.rules, rules, `${tool.prefix}x${at}_`, XML);
    const end = literal(`\n${PARAMETER_END}\n`);
    const node = sequence(literal(`${PARAMETER}${name}>\n`), value, end);
    return member.required ? node : optional(node);
  });
  return sequence(...found);
}

/** Arguments as Python's keywords, in parentheses. */
export function pythonArguments(tool: CalledTool, _: Spelling, rules: Map<string, Node>): Node {
  const members = membersOf(tool);
  const nodes = members.map(({ name, value, rules: given }, at) =>
    sequence(literal(`${name}=`), respelled(value, given, rules, `${tool.prefix}x${at}_`, PYTHON)),
  );
  let following: Node = sequence();
  let choices: Node[] = [];
  for (const [at, node] of [...nodes.entries()].reverse()) {
    const required = members[at]?.required;
    if (required) choices = [];
    choices.unshift(sequence(node, following));
    const more = sequence(literal(", "), node);
    const name = `${tool.prefix}after${at}`;
    rules.set(name, sequence(required ? more : optional(more), following));
    following = rule(name);
  }
  if (!members.some(({ required }) => required)) choices.push(sequence());
  return sequence(literal("("), choice(choices), literal(")"));
}

/**
 * The arguments of a tool, in the order of its schema.
 *
 * @throws EdgewiseError `unsupported.tool_choice` for arguments that are more than a list of names, or with a name that
 *   the notation has no place for.
 */
function membersOf(tool: CalledTool): Member[] {
  for (const [keyword, value] of Object.entries(tool.schema)) {
    const closed = keyword !== "additionalProperties" || value === false;
    if (!closed || !(UNDERSTOOD.has(keyword) || keyword.startsWith("x-"))) {
      throw refused(
        `The arguments of ${shorten(tool.name)} are more than names and their values: there is ${shorten(keyword)}.`,
      );
    }
  }
  if (Object.hasOwn(tool.schema, "type") && tool.schema.type !== "object") {
    throw refused(`The arguments of ${shorten(tool.name)} are no object.`);
  }
  const given = Object.hasOwn(tool.schema, "required") ? tool.schema.required : [];
  if (!Array.isArray(given) || given.some((name) => typeof name !== "string")) {
    throw refused(`${shorten(tool.name)} requires ${shorten(given)}, which are no names.`);
  }
  const required: ReadonlySet<string> = new Set(given);
  const properties = propertiesOf(tool);
  return [...new Set([...Object.keys(properties), ...required])].map((name) => {
    if (!isName(name)) {
      throw refused(
        `An argument of ${shorten(tool.name)} is called ${shorten(name)}, which a notation without quotes cannot write.`,
      );
    }
    const rules = new Map<string, Node>();
    const known = Object.hasOwn(properties, name);
    const [schema, at] = known ? [tool.schema, ["properties", name]] : [true, []];
    const value = schemaRules(schema, rules, tool.prefix, at);
    return { name, value, rules, required: required.has(name) };
  });
}

function propertiesOf(tool: CalledTool): JsonObject {
  const properties = Object.hasOwn(tool.schema, "properties") ? tool.schema.properties : {};
  if (!isObject(properties)) {
    throw refused(`The properties of ${shorten(tool.name)} are ${shorten(properties)}, no object.`);
  }
  return properties;
}

/** Characters inside a Python string: as in JSON, but for the two that have another escape. */
function pythonEscape(ranges: Ranges): Node {
  const rest = common(ranges, others(characters("\b\f")));
  const spelled: Node[] = rest.length > 0 ? [jsonEscape(rest)] : [];
  for (const character of "\b\f") {
    if (common(ranges, characters(character)).length > 0) {
      spelled.push(literal(`\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`));
    }
  }
  return choice(spelled);
}
