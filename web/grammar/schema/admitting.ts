/** Whether a value that a schema names holds under other keywords beside it. */

import { shorten } from "../../errors.ts";
import { OF_TYPE, type TypeName } from "./keywords.ts";
import type { Shape } from "./shape.ts";
import { isFields, lengthOf, spelled } from "./values.ts";

/**
 * The values of `enum` and `const` that all else admits, each once; null where neither is.
 *
 * @throws EdgewiseError `input.schema` for an `enum` that is no list; `unsupported.schema` for
 *   numbers that not all languages read alike, and where it cannot be told whether a keyword admits
 *   a value.
 */
export function namedValues(shape: Shape): readonly unknown[] | null {
  const lists: (readonly unknown[])[] = shape.said("const").map(([, value]) => [value]);
  for (const [place, value] of shape.said("enum")) {
    if (!Array.isArray(value)) {
      throw shape.document.wrong(place, `enum ${shorten(value)} is no list`);
    }
    lists.push(value);
  }
  const tables = lists.map((values) => new Map(values.map((value) => [key(shape, value), value])));
  const [first, ...rest] = tables;
  if (!first) return null;
  const found = [...first].filter(([name]) => rest.every((table) => table.has(name)));
  return found.map(([, value]) => value).filter((value) => admits(shape, value));
}

function key(shape: Shape, value: unknown): string {
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const each = waiting.pop();
    if (Array.isArray(each)) for (const item of each) waiting.push(item);
    else if (isFields(each)) for (const item of Object.values(each)) waiting.push(item);
    else if (typeof each === "number" && Math.abs(each) > Number.MAX_SAFE_INTEGER) {
      throw shape.refused(`the number ${shorten(each)}, which not all languages read alike,`);
    }
  }
  return spelled(value, true);
}

/** Whether a value holds under keywords other than `enum` and `const`. */
export function admits(shape: Shape, value: unknown): boolean {
  const types = shape.types();
  const kind = typeOf(value);
  if (
    types !== null &&
    !types.includes(kind) &&
    (kind !== "integer" || !types.includes("number"))
  ) {
    return false;
  }
  if (typeof value === "string") {
    if (shape.has("pattern", "format")) {
      throw shape.refused("a pattern or a format beside values that are named");
    }
    const length = lengthOf(value);
    return (
      shape.counts("minLength").every((least) => least <= length) &&
      shape.counts("maxLength").every((most) => length <= most)
    );
  }
  if (typeof value === "number") return numberHolds(shape, value);
  if (shape.has(...(OF_TYPE.get(kind) ?? []))) {
    throw shape.refused(`${kind}s that are named beside keywords on ${kind}s`);
  }
  return true;
}

function numberHolds(shape: Shape, value: number): boolean {
  if (shape.has("multipleOf")) throw shape.refused("multipleOf beside values that are named");
  return (
    shape.numbers("minimum").every((bound) => value >= bound) &&
    shape.numbers("exclusiveMinimum").every((bound) => value > bound) &&
    shape.numbers("maximum").every((bound) => value <= bound) &&
    shape.numbers("exclusiveMaximum").every((bound) => value < bound)
  );
}

function typeOf(value: unknown): TypeName {
  if (value === null) return "null";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  if (typeof value === "string") return "string";
  return Array.isArray(value) ? "array" : "object";
}
