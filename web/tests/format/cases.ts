/** The cases in tests/format, which the Python readers are held to as well. */

import { readFileSync } from "node:fs";
import { EdgewiseError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";

const FOLDER = new URL("../../../tests/format/", import.meta.url);

export function bytes(file: string): Uint8Array {
  return readFileSync(new URL(file, FOLDER));
}

/**
 * A file of cases, or a golden; a manifest without its digest. The strict parser reads it, so that
 * 1.0 in a case is not 1 and `__proto__` is a key like any other.
 */
export function load(file: string): unknown {
  const value = parseJson(bytes(file), file, "case");
  if (file.endsWith("bundle.json")) table(value).delete("digest");
  return value;
}

export type Table = Map<string, unknown>;

export function table(value: unknown): Table {
  if (value instanceof Map) return value;
  throw new TypeError(`${String(value)} is no object`);
}

export function list(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new TypeError(`${String(value)} is no list`);
}

export function text(value: unknown): string {
  if (typeof value === "string") return value;
  throw new TypeError(`${String(value)} is no string`);
}

/** An object of whole numbers. */
export function numbers(value: unknown): Map<string, number> {
  return new Map([...table(value)].map(([name, item]) => [name, Number(item)]));
}

/** Each case with its name, as `test.each` takes them. */
export function named(cases: unknown, key = "what"): [string, Table][] {
  return list(cases).map((item, i) => [`${show(table(item).get(key))} (${i})`, table(item)]);
}

function show(value: unknown): string {
  const written = typeof value === "string" ? value : JSON.stringify(value);
  return String(written).slice(0, 48);
}

/** The code of the EdgewiseError that something throws, null where it does not. */
export function codeOf(ask: () => unknown): string | null {
  try {
    ask();
    return null;
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    if (error.message.length > 700) throw new RangeError("a message too long to read");
    return error.code;
  }
}

/**
 * The golden a case names, parsed and edited.
 *
 * An edit is a path and a new value, or a path alone to remove what is there; "-" as the last key
 * appends to a list.
 */
export function edited(item: Table): unknown {
  const value = load(`goldens/${text(item.get("file"))}`);
  for (const edit of list(item.get("edits"))) {
    const [path, ...replacement] = list(edit);
    const keys = list(path);
    const last = keys.at(-1);
    let at: unknown = value;
    for (const key of keys.slice(0, -1)) at = child(at, key);
    if (at instanceof Map) {
      if (replacement.length > 0) at.set(last, replacement[0]);
      else if (!at.delete(last)) throw new RangeError(`nothing to remove at ${String(keys)}`);
    } else if (Array.isArray(at)) {
      const index = last === "-" ? at.length : Number(last);
      at.splice(index, 1, ...replacement);
    } else {
      throw new RangeError(`nothing to edit at ${String(keys)}`);
    }
  }
  return value;
}

function child(parent: unknown, key: unknown): unknown {
  const found = parent instanceof Map ? parent.get(key) : list(parent)[Number(key)];
  if (found === undefined) throw new RangeError(`nothing at ${String(key)}`);
  return found;
}

/** The bytes of a text case: in hex, or pieces of which a pair is repeated. */
export function written(item: Table): Uint8Array {
  const hex = item.get("hex");
  if (typeof hex === "string") return Uint8Array.from(Buffer.from(hex, "hex"));
  const pieces = list(item.get("text")).map((piece) =>
    typeof piece === "string" ? piece : text(list(piece)[0]).repeat(Number(list(piece)[1])),
  );
  return new TextEncoder().encode(pieces.join(""));
}
