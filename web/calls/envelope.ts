/** Calls as JSON objects with a name and arguments, which most formats put between their marks. As in Python's `calls/envelope.py`. */

import { isJson } from "./json-scanner.ts";
import { NotACallError, type Reading, type Source } from "./source.ts";

const ARGUMENTS = ["arguments", "parameters"];
/** Keys that some models write, with strings that say nothing more. */
const IGNORED = ["id", "type"];

/**
 * Read `{"name": "f", "arguments": {...}}`, from its brace on.
 *
 * The keys may be in either order; the arguments may be a string with the JSON in it, or missing.
 *
 * @param known names that are no tool's make it none, where tools are known.
 */
export function* call(source: Source, known = false): Reading<void> {
  yield* source.expect("{");
  let name = "";
  let begun = false;
  const held: string[] = [];
  for (;;) {
    yield* source.spaces();
    const key = yield* string(source);
    yield* source.spaces();
    yield* source.expect(":");
    yield* source.spaces();
    if (key === "name" && !name) {
      name = yield* string(source);
      if (known && source.tools && !Object.hasOwn(source.tools, name)) throw new NotACallError();
    } else if (ARGUMENTS.includes(key) && name && !begun && held.length === 0) {
      source.begin(name);
      begun = true;
      yield* args(source);
    } else if (ARGUMENTS.includes(key) && !begun && held.length === 0) {
      yield* source.json((text) => held.push(text));
    } else if (IGNORED.includes(key)) {
      yield* string(source);
    } else {
      throw new NotACallError();
    }
    yield* source.spaces();
    if ((yield* source.expect(",", "}")) === "}") break;
  }
  if (!begun) {
    if (!name) throw new NotACallError();
    source.begin(name);
    source.arguments(object(held.join("") || "null"));
  }
  source.end();
}

/** Read such objects in an array, from its bracket on. */
export function* callList(source: Source, known = false): Reading<void> {
  yield* source.expect("[");
  for (;;) {
    yield* source.spaces();
    yield* call(source, known);
    yield* source.spaces();
    if ((yield* source.expect(",", "]")) === "]") return;
  }
}

/** Read the arguments of the call that has begun. */
export function* args(source: Source): Reading<void> {
  if ((yield* source.peek()) === "{") {
    yield* source.json((text) => source.arguments(text));
  } else {
    const held: string[] = [];
    yield* source.json((text) => held.push(text));
    source.arguments(object(held.join("")));
  }
}

/** Arguments as a JSON object: what a string has in it, and an empty one for null. */
function object(text: string): string {
  const inside = text.startsWith('"') ? String(JSON.parse(text)) : text;
  if (inside === "null" || inside === "") return "{}";
  if (!isJson(inside, "{")) throw new NotACallError();
  return inside;
}

function* string(source: Source): Reading<string> {
  if (!['"', ""].includes(yield* source.peek())) throw new NotACallError();
  const held: string[] = [];
  yield* source.json((text) => held.push(text));
  return String(JSON.parse(held.join("")));
}
