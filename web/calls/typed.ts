/** Arguments that a model writes as plain text, made JSON by what a tool's schema says of them. As in Python's `calls/typed.py`. */

import { isObject } from "../engine/json.ts";
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

/** The types that a tool's schema allows an argument, in order; empty where it does not say. */
export function typesOf(tools: Tools | null, tool: string, key: string): readonly string[] {
  const properties = own(own(tools, tool), "properties");
  const schema = own(properties, key);
  if (!isObject(schema)) return [];
  const found = named(schema);
  for (const word of ["anyOf", "oneOf"]) {
    const choices = schema[word];
    for (const choice of Array.isArray(choices) ? choices : []) found.push(...named(choice));
  }
  if (found.length > 0 && schema.nullable === true) found.push("null");
  return found;
}

function own(value: unknown, key: string): unknown {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

function named(schema: unknown): string[] {
  const type = own(schema, "type");
  return (Array.isArray(type) ? type : [type]).filter((name) => typeof name === "string");
}

/** Whether an argument of these types is a string whatever is written. */
export function isText(types: readonly string[]): boolean {
  return !types.some((name) => READ.has(name));
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
