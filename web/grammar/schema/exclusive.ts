/** Whether no two of several schemas hold of what is written, as `oneOf` asks. */

import { admits, namedValues } from "./admitting.ts";
import type { Document } from "./document.ts";
import { TYPES } from "./keywords.ts";
import { knownNames, propertyAtoms, requiredNames } from "./objects.ts";
import { type Atom, type Atoms, expanded, Shape, whole } from "./shape.ts";
import { spelled } from "./values.ts";

const MAX_BRANCHES = 200;
/** How deep in properties a difference is looked for. */
const DEPTH = 4;

/**
 * The branches, where no text that is written for one is valid under another.
 *
 * @throws EdgewiseError `unsupported.schema` where that cannot be shown by types, by values that are
 *   named, by bounds of numbers, or by properties that are always or never written.
 */
export function exclusive(
  document: Document,
  group: Atom,
  branches: readonly Atoms[],
): readonly Atoms[] {
  if (branches.length > MAX_BRANCHES) {
    throw document.refused(group.place, `oneOf of more than ${MAX_BRANCHES} schemas`);
  }
  for (const one of branches) {
    for (const other of branches) {
      if (one !== other && !never(document, one, other, DEPTH)) {
        throw document.refused(group.place, "oneOf of schemas that may hold together");
      }
    }
  }
  return branches;
}

/** Whether it can be shown that what is written for one is not valid under the other. */
function never(document: Document, one: Atoms, other: Atoms, depth: number): boolean {
  const [left, right] = [expanded(document, one), expanded(document, other)];
  if (left === null || right === null) return true;
  for (const atoms of [left, right]) {
    const group = atoms.find((atom) => atom.part !== "own");
    if (!group) continue;
    const rest = atoms.filter((atom) => atom !== group);
    const each = document.places(group.place, group.part).map((at) => [...rest, ...whole(at)]);
    return (
      depth > 0 &&
      each.every((some) =>
        atoms === left
          ? never(document, some, right, depth - 1)
          : never(document, left, some, depth - 1),
      )
    );
  }
  return shapesNever(shapeOf(document, left), shapeOf(document, right), depth);
}

function shapeOf(document: Document, atoms: Atoms): Shape {
  return new Shape(
    document,
    atoms.map((atom) => atom.place),
  );
}

function shapesNever(one: Shape, other: Shape, depth: number): boolean {
  const [mine, its] = [namedValues(one), namedValues(other)];
  if (mine !== null && its !== null) {
    const known = new Set(its.map((value) => spelled(value, true)));
    return !mine.some((value) => known.has(spelled(value, true)));
  }
  if (mine !== null) return !mine.some((value) => admits(other, value));
  if (its !== null) return !its.some((value) => admits(one, value));
  const those = withIntegers(other.types() ?? TYPES);
  return [...withIntegers(one.writtenTypes())]
    .filter((kind) => those.has(kind))
    .every(
      (kind) =>
        ((kind === "integer" || kind === "number") && (above(one, other) || above(other, one))) ||
        (kind === "object" && depth > 0 && objectsNever(one, other, depth)),
    );
}

function withIntegers(types: readonly string[]): ReadonlySet<string> {
  return new Set([...types, ...(types.includes("number") ? ["integer"] : [])]);
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

/**
 * Whether the other needs a property that is not written for one, or has one otherwise that is
 * always written.
 */
function objectsNever(one: Shape, other: Shape, depth: number): boolean {
  if (one.has("patternProperties") || other.has("patternProperties")) return false;
  return (
    requiredNames(other).some((name) => !writes(one, name)) ||
    requiredNames(one).some((name) =>
      never(one.document, propertyAtoms(one, name), propertyAtoms(other, name), depth - 1),
    )
  );
}

function writes(shape: Shape, name: string): boolean {
  if (expanded(shape.document, propertyAtoms(shape, name)) === null) return false;
  if (shape.has("additionalProperties") || !shape.has("properties")) return true;
  return knownNames(shape).includes(name);
}
