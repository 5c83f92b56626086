/** What Python's `json.dumps` writes for values of parsed JSON, keys sorted: what is hashed has to be the same bytes. */

import { EdgewiseError, shorten } from "../errors.ts";

/** What stands between items, and between a key and its value. */
export interface Separators {
  readonly item: string;
  readonly key: string;
}

export const USUAL: Separators = { item: ", ", key: ": " };
export const COMPACT: Separators = { item: ",", key: ":" };

/**
 * @param value of Maps, arrays, strings, whole numbers, booleans and null, as `parseJson` gives them.
 * @throws EdgewiseError `bundle.type` for anything else: fractions are not written alike everywhere.
 */
export function pythonJson(value: unknown, separators: Separators = USUAL): string {
  const { item, key } = separators;
  if (value === null || typeof value === "boolean") return String(value);
  if (Number.isSafeInteger(value)) return String(value);
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) {
    return `[${value.map((one) => pythonJson(one, separators)).join(item)}]`;
  }
  if (value instanceof Map) {
    const names = [...value.keys()].map(String).sort(byCodePoints);
    const written = names.map(
      (name) => `${quoted(name)}${key}${pythonJson(value.get(name), separators)}`,
    );
    return `{${written.join(item)}}`;
  }
  throw new EdgewiseError("bundle.type", `${shorten(value)} is not what a manifest has.`);
}

function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /[^\0-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Strings of JavaScript are compared by halves of characters, those of Python by characters. */
function byCodePoints(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  for (const [at, one] of left.entries()) {
    const other = right[at];
    if (other === undefined) return 1;
    if (one !== other) return (one.codePointAt(0) ?? 0) - (other.codePointAt(0) ?? 0);
  }
  return left.length - right.length;
}
