/** Which values are equal, which comes first, and what is in what: as in Python. */

import { type Run, TemplateError, TemplateLimitError } from "./run.ts";
import {
  compareTexts,
  Float,
  isDict,
  isList,
  itemsOf,
  type Key,
  kind,
  MAX_NESTED,
  Marked,
  plainText,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

export function equal(run: Run, one: Value, other: Value, depth = 0): boolean {
  run.spend(1);
  if (depth > MAX_NESTED) throw tooDeep();
  const [left, right] = [unmarked(one), unmarked(other)];
  if (typeof left === "string" && typeof right === "string") {
    run.look(Math.min(left.length, right.length));
    return left === right;
  }
  const [a, b] = [counted(left), counted(right)];
  if (a !== null && b !== null) return a === b;
  const [items, others] = [alike(left, right), alike(right, left)];
  if (items && others) {
    return (
      items.length === others.length &&
      items.every((item, i) => equal(run, item, others[i] ?? null, depth + 1))
    );
  }
  if (isDict(left) && isDict(right)) {
    if (left.size !== right.size || [...left.keys()].some((key) => !right.has(key))) return false;
    return [...left].every(([key, value]) => equal(run, value, right.get(key) ?? null, depth + 1));
  }
  return left === right || (left instanceof Undefined && right instanceof Undefined);
}

/** A number below, at or above 0, as the one comes before, with or after the other. */
export function order(run: Run, one: Value, other: Value, depth = 0): number {
  run.spend(1);
  if (depth > MAX_NESTED) throw tooDeep();
  const [left, right] = [unmarked(one), unmarked(other)];
  if (typeof left === "string" && typeof right === "string") {
    run.look(Math.min(left.length, right.length));
    return compareTexts(left, right);
  }
  const [a, b] = [counted(left), counted(right)];
  if (a !== null && b !== null) return a < b ? -1 : Number(a > b);
  const [items, others] = [alike(left, right), alike(right, left)];
  if (items && others) {
    for (const [i, item] of items.slice(0, others.length).entries()) {
      const second = others[i] ?? null;
      if (!equal(run, item, second, depth + 1)) return order(run, item, second, depth + 1);
    }
    return items.length - others.length;
  }
  throw new TemplateError(`${kind(left)} and ${kind(right)} have no order`);
}

export function contains(run: Run, outer: Value, part: Value): boolean {
  const whole = unmarked(outer);
  if (typeof whole === "string") {
    const wanted = plainText(unmarked(part), "looking into text");
    run.look(whole.length, wanted.length);
    return whole.includes(wanted);
  }
  if (isDict(whole)) {
    const key = keyOf(part);
    return key !== null && whole.has(key);
  }
  return itemsOf(run, whole).some((item) => equal(run, item, part));
}

/**
 * What a dict knows a value by, or null for a value that is no key of any.
 *
 * @throws TemplateError for lists and dicts, which cannot be looked for.
 */
export function keyOf(value: Value): Key | null {
  const plain = unmarked(value);
  if (typeof plain === "string" || typeof plain === "number") return plain;
  if (typeof plain === "boolean") return Number(plain);
  if (plain instanceof Float && Number.isInteger(plain.number)) return plain.number + 0;
  if (isList(plain) || isDict(plain)) throw new TemplateError(`a ${kind(value)} cannot be a key`);
  return null;
}

export function unmarked(value: Value): Value {
  return value instanceof Marked ? value.text : value;
}

/** A number, truth values counted as numbers, or null for other values. */
export function counted(value: Value): number | null {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  return value instanceof Float ? value.number : null;
}

/** The items of a list or tuple, where the other value is the same of the two. */
function alike(value: Value, other: Value): readonly Value[] | null {
  if (isList(value)) return isList(other) ? value : null;
  return value instanceof Tuple && other instanceof Tuple ? value.items : null;
}

function tooDeep(): TemplateLimitError {
  return new TemplateLimitError(`it compares lists and dicts more than ${MAX_NESTED} deep`);
}
