/** Tools: JSON schemas as what chat templates show of them; by the rules of Python's `edgewise/tools.py`. */

import { EdgewiseError, shorten } from "../errors.ts";
import { isTable, type JsonTable, plainJson } from "./plain.ts";

const MAX_TOOLS = 256;
/** What a tool may be named: what no format of calls has to escape. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}$/;
const NO_ARGUMENTS: JsonTable = { type: "object", properties: {} };
const CODE = "input.tools";

/** A tool that a model may call. */
export interface Tool {
  readonly name: string;
  /** Its JSON schema as templates show it: `{ type: "function", function: {...} }`. */
  readonly described: JsonTable;
  /** The JSON schema of its arguments, which are an object. */
  readonly parameters: JsonTable;
}

/**
 * Checked tools; null where nobody gave any.
 *
 * @throws EdgewiseError `input.tools` for what is no tool, or too many; `unsupported.tool`.
 */
export function toolsOf(tools: unknown): readonly Tool[] | null {
  if (tools === null || tools === undefined) return null;
  if (!Array.isArray(tools)) throw wrong(`${shorten(tools)} is no list of tools.`);
  const found = new Map<string, Tool>();
  for (const given of tools) {
    if (found.size === MAX_TOOLS) {
      throw wrong(`There are more than ${MAX_TOOLS} tools.`, "Pass those that are needed.");
    }
    const tool = toolOf(given);
    if (found.has(tool.name)) {
      throw wrong(`Two tools are named ${shorten(tool.name)}.`, "Rename one of them.");
    }
    found.set(tool.name, tool);
  }
  return [...found.values()];
}

function toolOf(given: unknown): Tool {
  if (!isTable(given)) {
    throw wrong(
      `${shorten(given)} is no tool.`,
      'Pass a JSON schema such as {"type": "function", "function": {"name": ...}}.',
    );
  }
  const plain = plainJson(given, "A tool", CODE) as JsonTable;
  // Templates read the form of OpenAI's API; some callers pass what is inside it.
  const bare = !("type" in plain) && !("function" in plain);
  const tool: JsonTable = bare ? { type: "function", function: plain } : plain;
  if ("type" in tool && tool.type !== "function") {
    throw new EdgewiseError(
      "unsupported.tool",
      `A tool is of type ${shorten(tool.type)}; only functions are known.`,
      'Pass {"type": "function", "function": {"name": ..., "parameters": ...}}.',
    );
  }
  const { function: called } = tool;
  if (!isTable(called)) {
    throw wrong(`A tool's function is ${shorten(called)}; it must be an object.`);
  }
  const { description = null, parameters = null } = called;
  const name = named(called.name);
  if (description !== null && typeof description !== "string") {
    throw wrong(`The description of ${name} is ${shorten(description)}, no text.`);
  }
  const schema: unknown = parameters ?? NO_ARGUMENTS;
  if (!isTable(schema) || ("type" in schema && schema.type !== "object")) {
    throw wrong(
      `The parameters of ${name} are ${shorten(schema)}; they must be the JSON schema of an object.`,
    );
  }
  return { name, described: { type: "function", ...tool }, parameters: schema as JsonTable };
}

function named(name: unknown): string {
  if (typeof name === "string" && NAME.test(name)) return name;
  throw wrong(
    `A tool is named ${shorten(name)}.`,
    "Name it with up to 128 letters (A to Z), digits and _ - . / signs.",
  );
}

function wrong(message: string, remedy = ""): EdgewiseError {
  return new EdgewiseError(CODE, message, remedy);
}
