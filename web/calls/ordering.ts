/** Schemas whose arguments are written in the order of their names. As in Python's `calls/ordering.py`. */

import { isObject, type JsonObject } from "../engine/json.ts";
import { MAX_DEPTH } from "../grammar/schema/document.ts";

const PROPERTIES = "properties";

/**
 * The same schema, of which `properties` are everywhere in the order of their names, as jinja's `dictsort` puts them:
 * without regard to the case of ASCII's letters.
 */
export function byName(schema: JsonObject): JsonObject {
  return entriesOf(schema, Object.keys(schema), MAX_DEPTH + 1);
}

/** A value of a schema; what is deeper than any schema may be stays as it is. */
function ordered(value: unknown, above: string, levels: number): unknown {
  if (levels === 0) return value;
  if (Array.isArray(value)) return value.map((item) => ordered(item, "", levels - 1));
  if (!isObject(value)) return value;
  const names = Object.keys(value);
  if (above === PROPERTIES) names.sort((a, b) => compared(folded(a), folded(b)));
  return entriesOf(value, names, levels);
}

function entriesOf(value: JsonObject, names: readonly string[], levels: number): JsonObject {
  return Object.fromEntries(names.map((name) => [name, ordered(value[name], name, levels - 1)]));
}

function folded(name: string): readonly number[] {
  const lower = name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  return [...lower].map((character) => character.codePointAt(0) ?? 0);
}

/** Which of two rows of code points comes first. */
function compared(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((code, i) => code !== b[i]);
  return at < 0 ? a.length - b.length : (a[at] ?? 0) - (b[at] ?? -1);
}
