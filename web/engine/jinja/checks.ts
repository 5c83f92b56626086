/** Jinja's tests: what `value is name` asks. */

import { OPERATORS } from "./arithmetic.ts";
import { contains, counted, equal, order, unmarked } from "./compare.ts";
import { type Run, TemplateError } from "./run.ts";
import { isLike } from "./texts.ts";
import {
  type Arguments,
  Callable,
  Float,
  isDict,
  isList,
  Loop,
  Marked,
  REQUIRED,
  Stream,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from "./values.ts";

/** What the test `name` says of a value. */
export function check(run: Run, name: string, value: Value, given: Arguments): boolean {
  const alone = ALONE.get(name);
  if (alone) {
    given.bind(name, []);
    return alone(value, run);
  }
  const withOne = WITH_ONE.get(name);
  if (!withOne) throw new TemplateError(`there is no test '${name}'`);
  const [other] = given.bind(name, [["other", REQUIRED]]);
  return withOne(run, value, other);
}

function leftOver(run: Run, value: Value, by: Value): number {
  for (const side of [value, by]) {
    if (counted(side) !== null) continue;
    const said = side instanceof Undefined ? side.said : "";
    throw new TemplateError(said || "a test takes a number");
  }
  return counted(OPERATORS["%"]?.(run, value, by) ?? null) ?? 0;
}

function isCased(run: Run, value: Value, name: string): boolean {
  const text = textOf(run, value);
  run.look(text.length);
  return isLike(name, text);
}

function isSame(value: Value, other: Value): boolean {
  if ([value, other].some((side) => side === null || typeof side === "boolean")) {
    return value === other;
  }
  throw new TemplateError("sameas is only supported for none, true and false");
}

function hasItems(value: Value): boolean {
  const text = typeof value === "string" || value instanceof Marked;
  const listed = isList(value) || value instanceof Tuple || isDict(value);
  return text || listed || value instanceof Undefined;
}

const ALONE: ReadonlyMap<string, (value: Value, run: Run) => boolean> = new Map(
  Object.entries<(value: Value, run: Run) => boolean>({
    boolean: (v) => typeof v === "boolean",
    callable: (v) => [Callable, Loop, Undefined].some((type) => v instanceof type),
    defined: (v) => !(v instanceof Undefined),
    escaped: (v) => v instanceof Marked,
    even: (v, run) => leftOver(run, v, 2) === 0,
    false: (v) => v === false,
    float: (v) => v instanceof Float,
    integer: (v) => typeof v === "number",
    iterable: (v) => hasItems(v) || v instanceof Stream,
    lower: (v, run) => isCased(run, v, "islower"),
    mapping: (v) => isDict(v),
    none: (v) => v === null,
    number: (v) => counted(v) !== null,
    odd: (v, run) => leftOver(run, v, 2) === 1,
    sequence: hasItems,
    string: (v) => typeof v === "string" || v instanceof Marked,
    true: (v) => v === true,
    undefined: (v) => v instanceof Undefined,
    upper: (v, run) => isCased(run, v, "isupper"),
  }),
);

type WithOne = (run: Run, value: Value, other: Value) => boolean;
const different: WithOne = (run, v, other) => !equal(run, v, other);
const less: WithOne = (run, v, other) => order(run, v, other) < 0;
const more: WithOne = (run, v, other) => order(run, v, other) > 0;
const WITH_ONE: ReadonlyMap<string, WithOne> = new Map<string, WithOne>([
  ["divisibleby", (run, v, other) => leftOver(run, v, other) === 0],
  ["in", (run, v, other) => contains(run, other, v)],
  ["sameas", (_, v, other) => isSame(unmarked(v), unmarked(other))],
  ["eq", equal],
  ["equalto", equal],
  ["==", equal],
  ["ne", different],
  ["!=", different],
  ["lt", less],
  ["lessthan", less],
  ["<", less],
  ["le", (run, v, other) => order(run, v, other) <= 0],
  ["<=", (run, v, other) => order(run, v, other) <= 0],
  ["gt", more],
  ["greaterthan", more],
  [">", more],
  ["ge", (run, v, other) => order(run, v, other) >= 0],
  [">=", (run, v, other) => order(run, v, other) >= 0],
]);
