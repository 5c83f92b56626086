/** Arguments that a model writes as plain text, made JSON by what a tool's schema says of them. As in Python's `calls/typed.py`. */

import { isObject, type JsonObject } from "../engine/json.ts";
import { ANNOTATIONS } from "../grammar/schema/keywords.ts";
import { escaped, isJson } from "./json-scanner.ts";
import { type Tools, withoutSpace } from "./source.ts";

const INTEGER = /^(-?(?:0|[1-9][0-9]*))(?:\.0+)?$/;
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
const BOOLEANS = new Map([
  ["true", "true"],
  ["1", "true"],
  ["false", "false"],
  ["0", "false"],
]);

/**
 * The types that a tool's schema allows an argument, in order; empty where it does not say.
 *
 * Those of references within the schema and of values that are named count, too.
 */
export function typesOf(tools: Tools | null, tool: string, key: string): readonly string[] {
  const root = own(tools, tool);
  const found: string[] = [];
  // A Set's iteration comes to what is added meanwhile.
  const schemas = new Set<unknown>([own(own(root, "properties"), key)]);
  let nullable = false;
  for (const schema of schemas) {
    if (!isObject(schema)) continue;
    found.push(...named(schema));
    for (const word of ["allOf", "anyOf", "oneOf"]) {
      const choices = own(schema, word);
      for (const choice of Array.isArray(choices) ? choices : []) schemas.add(choice);
    }
    const reference = own(schema, "$ref");
    if (typeof reference === "string") schemas.add(referred(root, reference));
    nullable ||= own(schema, "nullable") === true;
  }
  return [...new Set(found.length > 0 && nullable ? [...found, "null"] : found)];
}

function own(value: unknown, key: string): unknown {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** What a JSON pointer (RFC 6901) behind `#` leads to; undefined where it leads to nothing. */
function referred(root: unknown, reference: string): unknown {
  if (!reference.startsWith("#/")) return reference === "#" ? root : undefined;
  const parts = reference.slice(2).split("/");
  return parts.reduce(
    (held: unknown, part) => own(held, part.replaceAll("~1", "/").replaceAll("~0", "~")),
    root,
  );
}

function named(schema: JsonObject): string[] {
  const type = own(schema, "type");
  const found = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === "string");
  if (found.length > 0) return found;
  const values = own(schema, "enum");
  const some = Object.hasOwn(schema, "const") ? [schema.const] : values;
  return (Array.isArray(some) ? some : []).map(typeOf);
}

function typeOf(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Whether an argument of these types is a string whatever is written. */
export function isText(types: readonly string[]): boolean {
  return !types.some((name) => READ.has(name));
}

/**
 * Whether values of some kinds, written as JSON but texts as they are, are read as valid ones.
 *
 * @param kinds of values under a schema; all numbers are `number`.
 * @param types what `typesOf` says of it.
 * @param schema of the argument.
 */
export function readsBack(
  kinds: ReadonlySet<string>,
  types: readonly string[],
  schema: unknown,
): boolean {
  if (isPlain(schema)) return true;
  const named = types.filter((name) => READ.has(name));
  const read = new Set(named.map((name) => (name === "integer" ? "number" : name)));
  if (kinds.has("string")) {
    if (kinds.size !== read.size + 1) return false;
    return [...read].every((name) => name === "null" && kinds.has(name));
  }
  return [...kinds].every((kind) => read.has(kind)) && !(read.has("boolean") && read.has("number"));
}

/** Whether a schema says only types, so that whatever is read as one of them is valid. */
function isPlain(schema: unknown): boolean {
  if (!isObject(schema)) return true;
  const { anyOf: choices = [], ...rest } = schema;
  if (!Array.isArray(choices) || (Object.hasOwn(rest, "type") && choices.length > 0)) return false;
  if (!choices.every(isObject)) return false;
  return [rest, ...choices].every((each) =>
    Object.keys(each).every((word) => word === "type" || ANNOTATIONS.has(word)),
  );
}

/** The JSON of a text: of the first type that it can be read as, else of a string. */
export function typed(text: string, types: readonly string[]): string {
  const bare = withoutSpace(text);
  for (const name of types) {
    const found = READ.get(name)?.(bare);
    if (found !== undefined) return found;
  }
  return `"${escaped(text)}"`;
}

const READ: ReadonlyMap<string, (text: string) => string | undefined> = new Map([
  ["integer", (text: string) => INTEGER.exec(text)?.[1]],
  ["number", (text: string) => (NUMBER.test(text) ? text : undefined)],
  ["boolean", (text: string) => BOOLEANS.get(text.toLowerCase())],
  ["null", (text: string) => (["null", "None"].includes(text) ? "null" : undefined)],
  ["object", (text: string) => (isJson(text, "{") ? text : undefined)],
  ["array", (text: string) => (isJson(text, "[") ? text : undefined)],
]);
