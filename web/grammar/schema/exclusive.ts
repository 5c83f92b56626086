/** Whether of several schemas no two hold of the same value, as `oneOf` asks. */

import { admits, namedValues } from "./admitting.ts";
import type { Document } from "./document.ts";
import { TYPES } from "./keywords.ts";
import { propertyAtoms, requiredNames } from "./objects.ts";
import { type Atom, type Atoms, expanded, Shape, whole } from "./shape.ts";
import { spelled } from "./values.ts";

const MAX_BRANCHES = 200;
/** How deep in properties a difference is looked for. */
const DEPTH = 4;

/**
 * The branches, of which no two hold together.
 *
 * @throws EdgewiseError `unsupported.schema` where that cannot be shown by types, by values that are
 *   named, by bounds of numbers, or by a property that both of two objects need.
 */
export function exclusive(
  document: Document,
  group: Atom,
  branches: readonly Atoms[],
): readonly Atoms[] {
  if (branches.length > MAX_BRANCHES) {
    throw document.refused(group.place, `oneOf of more than ${MAX_BRANCHES} schemas`);
  }
  for (const [i, one] of branches.entries()) {
    for (const other of branches.slice(0, i)) {
      if (!apart(document, one, other, DEPTH)) {
        throw document.refused(group.place, "oneOf of schemas that may hold together");
      }
    }
  }
  return branches;
}

/** Whether it can be shown that no value is under both. */
function apart(document: Document, one: Atoms, other: Atoms, depth: number): boolean {
  const [left, right] = [expanded(document, one), expanded(document, other)];
  if (left === null || right === null) return true;
  for (const [mine, its] of [
    [left, other],
    [right, one],
  ] as const) {
    const group = mine.find((atom) => atom.part !== "own");
    if (!group) continue;
    const rest = mine.filter((atom) => atom.part === "own");
    const each = document
      .places(group.place, group.part)
      .map((place) => [...rest, ...whole(place)]);
    return depth > 0 && each.every((some) => apart(document, some, its, depth - 1));
  }
  return shapesApart(shapeOf(document, left), shapeOf(document, right), depth);
}

function shapeOf(document: Document, atoms: Atoms): Shape {
  return new Shape(
    document,
    atoms.map((atom) => atom.place),
  );
}

function shapesApart(one: Shape, other: Shape, depth: number): boolean {
  const [mine, its] = [namedValues(one), namedValues(other)];
  if (mine !== null && its !== null) {
    const known = new Set(its.map((value) => spelled(value, true)));
    return !mine.some((value) => known.has(spelled(value, true)));
  }
  if (mine !== null) return !mine.some((value) => admits(other, value));
  if (its !== null) return !its.some((value) => admits(one, value));
  const those = typesOf(other);
  return [...typesOf(one)]
    .filter((kind) => those.has(kind))
    .every(
      (kind) =>
        ((kind === "integer" || kind === "number") && boundsApart(one, other)) ||
        (kind === "object" && depth > 0 && objectsApart(one, other, depth)),
    );
}

function typesOf(shape: Shape): ReadonlySet<string> {
  const types = shape.types() ?? TYPES;
  return new Set<string>([...types, ...(types.includes("number") ? ["integer"] : [])]);
}

function boundsApart(one: Shape, other: Shape): boolean {
  return above(one, other) || above(other, one);
}

/** Whether all numbers of one are above those of the other. */
function above(one: Shape, other: Shape): boolean {
  const [least, most] = [one.numbers("minimum"), other.numbers("maximum")];
  const [beyond, below] = [one.numbers("exclusiveMinimum"), other.numbers("exclusiveMaximum")];
  return (
    least.some((low) => most.some((high) => low > high)) ||
    beyond.some((low) => [...most, ...below].some((high) => low >= high)) ||
    least.some((low) => below.some((high) => low >= high))
  );
}

/** Whether objects differ in a property that one needs, and the other needs or does not have. */
function objectsApart(one: Shape, other: Shape, depth: number): boolean {
  if (one.has("patternProperties") || other.has("patternProperties")) return false;
  const [mine, its] = [requiredNames(one), requiredNames(other)];
  for (const name of new Set([...mine, ...its])) {
    const [left, right] = [propertyAtoms(one, name), propertyAtoms(other, name)];
    const both = mine.includes(name) && its.includes(name);
    const absent = expanded(one.document, mine.includes(name) ? right : left) === null;
    if (absent || (both && apart(one.document, left, right, depth - 1))) return true;
  }
  return false;
}
