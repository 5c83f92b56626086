/** What an answer has to be: any text, JSON, JSON of a schema, a regex or a grammar. */

import { EdgewiseError, shorten } from "../errors.ts";
import { isTable, type JsonTable, plainJson } from "./plain.ts";

export const SYNTAXES = ["gbnf", "lark"] as const;
export type Syntax = (typeof SYNTAXES)[number];

/** Characters of a regex or a grammar. */
const MAX_TEXT = 1 << 18;
const CODE = "input.response_format";
const EXAMPLE =
  'Such is one: {"type": "json_schema", "json_schema": {"name": "answer", "schema": {...}}}.';

/** What an answer is constrained to. */
export type ResponseFormat =
  | { readonly kind: "json_object" }
  | { readonly kind: "json_schema"; readonly schema: JsonTable; readonly name: string }
  /** The whole answer matches it. */
  | { readonly kind: "regex"; readonly text: string }
  /** Null for a syntax that its text tells. */
  | { readonly kind: "grammar"; readonly text: string; readonly syntax: Syntax | null };

type Given = Readonly<Record<string, unknown>>;

/** Types of formats: which keys they have, and how they are read. */
const TYPES: ReadonlyMap<
  string,
  readonly [readonly string[], (value: Given) => ResponseFormat | null]
> = new Map([
  ["text", [[], () => null]],
  ["json_object", [[], () => ({ kind: "json_object" })]],
  ["json_schema", [["json_schema"], ofSchema]],
  ["regex", [["pattern"], ({ pattern }) => ({ kind: "regex", text: textOf(pattern, "pattern") })]],
  ["grammar", [["grammar", "syntax"], ofGrammar]],
]);

/**
 * Read and check the option `responseFormat`: `text` or nothing, for which there is no format; `json` for any
 * object; what OpenAI's API takes, such as `{ type: "json_schema", json_schema: { name, schema } }`;
 * `{ type: "regex", pattern }` or `{ type: "grammar", grammar }`.
 *
 * @throws EdgewiseError `input.response_format`, `unsupported.response_format`.
 */
export function responseFormatOf(value: unknown): ResponseFormat | null {
  if (value === null || value === undefined) return null;
  const given: unknown =
    typeof value === "string" ? { type: value === "json" ? "json_object" : value } : value;
  if (!isTable(given)) throw wrong(`responseFormat is ${shorten(value)}.`, EXAMPLE);
  const { type } = given;
  if (typeof type !== "string") throw wrong(`responseFormat's type is ${shorten(type)}.`, EXAMPLE);
  const found = TYPES.get(type);
  if (!found) {
    throw new EdgewiseError(
      "unsupported.response_format",
      `responseFormat is of type ${shorten(type)}.`,
      `There are ${[...TYPES.keys()].join(", ")}.`,
    );
  }
  const [keys, read] = found;
  checkKeys(given, ["type", ...keys], "responseFormat");
  return read(given);
}

/**
 * An answer as JSON; the text itself of a regex and a grammar.
 *
 * @throws EdgewiseError `input.answer` for a text that is none, such as one that ended early.
 */
export function parseAnswer(format: ResponseFormat, answer: string): unknown {
  if (format.kind === "regex" || format.kind === "grammar") return answer;
  try {
    const value: unknown = JSON.parse(answer);
    if (format.kind === "json_object" && !isTable(value)) {
      throw new TypeError(`${shorten(value)} is no object`);
    }
    return value;
  } catch (cause) {
    throw new EdgewiseError(
      "input.answer",
      `The answer ${shorten(answer)} is not what was asked for: ` +
        `${cause instanceof Error ? cause.message.slice(0, 200) : "it is no JSON"}.`,
      "Where its finishReason is length, allow more with maxTokens.",
      { cause },
    );
  }
}

function ofSchema({ json_schema: held }: Given): ResponseFormat {
  if (!isTable(held)) throw wrong(`json_schema is ${shorten(held)}.`, EXAMPLE);
  checkKeys(held, ["name", "description", "schema", "strict"], "json_schema");
  const { schema, name = null, strict = null } = held;
  if (!isTable(schema)) throw wrong(`json_schema's schema is ${shorten(schema)}.`, EXAMPLE);
  if (name !== null && typeof name !== "string") {
    throw wrong(`json_schema's name is ${shorten(name)}, no text.`, "Leave it out.");
  }
  if (strict !== null && typeof strict !== "boolean") {
    throw wrong(
      `json_schema's strict is ${shorten(strict)}.`,
      "Leave it out: answers always follow the schema.",
    );
  }
  const plain = plainJson(schema, "A JSON schema", CODE) as JsonTable;
  return { kind: "json_schema", schema: plain, name: name ?? "" };
}

function ofGrammar({ grammar, syntax = null }: Given): ResponseFormat {
  const known = SYNTAXES.find((one) => one === syntax) ?? null;
  if (known !== syntax) {
    throw wrong(`A grammar's syntax is ${shorten(syntax)}.`, "It is gbnf or lark.");
  }
  return { kind: "grammar", text: textOf(grammar, "grammar"), syntax: known };
}

function checkKeys(value: Given, known: readonly string[], what: string): void {
  const other = Object.keys(value).find((key) => !known.includes(key));
  if (other !== undefined) {
    throw wrong(`${what} has no ${shorten(other)}.`, `There are ${known.join(", ")}.`);
  }
}

function textOf(text: unknown, name: string): string {
  if (typeof text === "string" && text !== "" && text.length <= 2 * MAX_TEXT) {
    if (text.length <= MAX_TEXT || [...text].length <= MAX_TEXT) {
      plainJson(text, `The ${name}`, CODE);
      return text;
    }
  }
  throw wrong(`The ${name} is ${shorten(text)}.`, `It is a text of 1 to ${MAX_TEXT} characters.`);
}

function wrong(message: string, remedy: string): EdgewiseError {
  return new EdgewiseError(CODE, message, remedy);
}
