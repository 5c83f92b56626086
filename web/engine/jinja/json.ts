/** Values as JSON, as Python's `json` writes them. */

import { isPrintable } from "./python-text.ts";
import { OBJECT_ROOM, type Run, TemplateError } from "./run.ts";
import {
  compareTexts,
  deeper,
  Float,
  finite,
  isDict,
  isList,
  type Key,
  kind,
  Marked,
  numberText,
  Tuple,
  type Value,
} from "./values.ts";

/** How JSON is written; `indent` is null where it is on one line. */
export interface Json {
  readonly indent: string | null;
  readonly between: string;
  readonly afterKey: string;
  readonly sortKeys: boolean;
  readonly asciiOnly: boolean;
}

export function jsonText(run: Run, value: Value, form: Json): string {
  const pieces: string[] = [];
  writeJson(run, value, form, pieces, 0);
  return pieces.join("");
}

function writeJson(run: Run, value: Value, form: Json, pieces: string[], depth: number): void {
  deeper(run, depth);
  if (value === null || typeof value === "boolean") pieces.push(String(value));
  else if (typeof value === "number" || value instanceof Float) {
    if (value instanceof Float) finite(value.number);
    pieces.push(run.made(numberText(value)));
  } else if (typeof value === "string") pieces.push(jsonQuoted(run, value, form));
  else if (value instanceof Marked) pieces.push(jsonQuoted(run, value.text, form));
  else if (isList(value) || value instanceof Tuple) {
    const items = isList(value) ? value : value.items;
    const entries = items.map((item): [string, Value] => ["", item]);
    encloseJson(run, "[]", entries, form, pieces, depth);
  } else if (isDict(value)) {
    const keys = [...value.keys()];
    if (form.sortKeys) {
      if (new Set(keys.map((key) => typeof key)).size > 1) {
        throw new TemplateError("keys of text and of numbers have no order");
      }
      keys.sort(compareKeys);
    }
    const entries = keys.map((key): [string, Value] => [
      jsonQuoted(run, String(key), form) + form.afterKey,
      value.get(key) ?? null,
    ]);
    encloseJson(run, "{}", entries, form, pieces, depth);
  } else throw new TemplateError(`tojson cannot write ${kind(value)}`);
}

function encloseJson(
  run: Run,
  marks: "[]" | "{}",
  entries: readonly [string, Value][],
  form: Json,
  pieces: string[],
  depth: number,
): void {
  const { indent, between } = form;
  if (entries.length === 0) {
    pieces.push(marks);
    return;
  }
  const width = indent === null ? 0 : 1 + indent.length * (depth + 1);
  run.make(width + entries.length * (OBJECT_ROOM + width + between.length));
  const line = indent === null ? "" : `\n${indent.repeat(depth + 1)}`;
  pieces.push(marks.charAt(0));
  for (const [i, [key, item]] of entries.entries()) {
    pieces.push((i > 0 ? between : "") + line + key);
    writeJson(run, item, form, pieces, depth + 1);
  }
  pieces.push(line.slice(0, line.length - (indent ?? "").length));
  pieces.push(marks.charAt(1));
}

const JSON_ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\b": "\\b",
  "\f": "\\f",
};

const CONTROLS = "\\x00-\\x1f";
const ESCAPED = new RegExp(`["\\\\${CONTROLS}]`, "g");
const BEYOND_ASCII = new RegExp(`["\\\\${CONTROLS}]|[^${CONTROLS} -\x7f]`, "g");

function jsonQuoted(run: Run, text: string, { asciiOnly }: Json): string {
  run.make(asciiOnly || !isPrintable(text) ? 6 * text.length : text.length);
  const pattern = asciiOnly ? BEYOND_ASCII : ESCAPED;
  const shown = (unit: string) =>
    JSON_ESCAPES[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `"${text.replace(pattern, shown)}"`;
}

function compareKeys(left: Key, right: Key): number {
  if (typeof left === "number" && typeof right === "number") return left - right;
  return compareTexts(String(left), String(right));
}
