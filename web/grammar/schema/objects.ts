/** Objects of a schema. */

import type { Node } from "../nodes.ts";
import { admits, namedValues } from "./admitting.ts";
import { COLON, choice, literal, optional, QUOTE, sequence } from "./anything.ts";
import { MAX_LEAST, smallest } from "./arrays.ts";
import type { Context } from "./context.ts";
import { type Place, said } from "./document.ts";
import { OF_TYPE } from "./keywords.ts";
import { inARow, type Member } from "./members.ts";
import { otherName } from "./names.ts";
import { type Atoms, expanded, Shape, whole } from "./shape.ts";
import { patternNode, stringNode } from "./strings.ts";
import { quoted } from "./values.ts";

/**
 * Objects under a shape; null where there are none.
 *
 * Names come in the order of `properties`, then those that only `required` has; then, where
 * `additionalProperties` is said, or no `properties` are, any number of others.
 */
export function objectNode(context: Context, shape: Shape): Node | null {
  const required = requiredNames(shape);
  const names = knownNames(shape);
  if (names.length > 0 && patternsOf(shape).length > 0) {
    throw shape.refused("patternProperties beside names that are known");
  }
  const others = (OF_TYPE.get("object") ?? []).filter((keyword) => keyword !== "required");
  if (required.length === 0 && !shape.has(...others)) return context.anything("object");
  const needed = new Set(required);
  const members: Member[] = [];
  for (const name of names) {
    const node = context.lower(propertyAtoms(shape, name));
    if (node === null || !mayBeCalled(context, shape, name)) {
      if (needed.has(name)) return null;
      continue;
    }
    const start = literal(`${quoted(name)}: `);
    members.push({ node: sequence(start, node), required: needed.has(name) });
  }
  return counted(context, shape, members, otherMember(context, shape, names));
}

/** The names of `properties`, and of `required`. */
export function knownNames(shape: Shape): string[] {
  const places = shape.said("properties").map(([place]) => place);
  const said = places.flatMap((place) => shape.document.names(place, "properties"));
  return [...new Set([...said, ...requiredNames(shape)])];
}

export function requiredNames(shape: Shape): string[] {
  const found: string[] = [];
  for (const [place, value] of shape.said("required")) {
    if (!Array.isArray(value) || value.some((name) => typeof name !== "string")) {
      throw shape.document.wrong(place, "required is no list of names");
    }
    for (const name of value) found.push(name);
  }
  return [...new Set(found)];
}

/**
 * What the value of a name has to hold: of each schema what it says of the name, else of names that
 * it does not have.
 */
export function propertyAtoms(shape: Shape, name: string): Atoms {
  const { document } = shape;
  const found: Place[] = [];
  for (const place of shape.places) {
    const fields = document.fields(place);
    if (Object.hasOwn(fields, "properties")) {
      const properties = document.below(place, "properties");
      if (Object.hasOwn(document.fields(properties), name)) {
        found.push(document.below(properties, name));
        continue;
      }
    }
    if (Object.hasOwn(fields, "additionalProperties")) {
      found.push(document.below(place, "additionalProperties"));
    }
  }
  return whole(...found);
}

function mayBeCalled(context: Context, shape: Shape, name: string): boolean {
  const names = namesOf(context, shape);
  if (names === null) return false;
  const values = namedValues(names);
  return values === null ? admits(names, name) : values.includes(name);
}

/** What names have to hold; null where none does. */
function namesOf(context: Context, shape: Shape): Shape | null {
  const called = shape
    .said("propertyNames")
    .map(([place]) => shape.document.below(place, "propertyNames"));
  const atoms = expanded(context.document, whole(...called));
  if (atoms === null) return null;
  if (atoms.some((atom) => atom.part !== "own")) {
    throw shape.refused("propertyNames that are one of several schemas");
  }
  return new Shape(
    context.document,
    atoms.map((atom) => atom.place),
  );
}

function patternsOf(shape: Shape): (readonly [Place, string])[] {
  const { document } = shape;
  return shape.said("patternProperties").flatMap(([place]) => {
    const at = document.below(place, "patternProperties");
    return document.names(place, "patternProperties").map((pattern) => [at, pattern] as const);
  });
}

/** A member of another name; null where none are written. */
function otherMember(context: Context, shape: Shape, names: readonly string[]): Node | null {
  const patterns = patternsOf(shape);
  if (patterns.length > 0) return ofPattern(context, shape, patterns);
  const more = shape.said("additionalProperties");
  if (more.length === 0 && shape.has("properties")) return null;
  const places = more.map(([place]) => shape.document.below(place, "additionalProperties"));
  const node = context.lower(whole(...places));
  let key: Node | null;
  if (!shape.has("propertyNames")) {
    key = names.length > 0 ? otherName(context, names) : context.anything("string");
  } else if (names.length > 0 && node !== null) {
    throw shape.refused("propertyNames beside known names and others");
  } else key = keyNode(context, shape);
  if (node === null || key === null) return null;
  return context.shared(sequence(key, COLON, node));
}

function keyNode(context: Context, shape: Shape): Node | null {
  const names = namesOf(context, shape);
  if (names === null) return null;
  const values = namedValues(names);
  if (values !== null) {
    const texts = values.filter((value) => typeof value === "string");
    return texts.length > 0 ? choice(texts.map((text) => literal(quoted(text)))) : null;
  }
  const types = names.types();
  return types === null || types.includes("string") ? stringNode(context, names) : null;
}

function ofPattern(
  context: Context,
  shape: Shape,
  patterns: readonly (readonly [Place, string])[],
): Node | null {
  const [first, second] = patterns;
  if (!first || second) throw shape.refused("more than one pattern of patternProperties");
  if (shape.has("propertyNames")) throw shape.refused("propertyNames beside patternProperties");
  const [at, pattern] = first;
  const { document } = shape;
  const others = shape.places.filter((place) => {
    const fields = document.fields(place);
    if (!Object.hasOwn(fields, "additionalProperties")) return false;
    const patterned = Object.hasOwn(fields, "patternProperties");
    return !patterned || document.below(place, "patternProperties") !== at;
  });
  const more = others.map((place) => document.below(place, "additionalProperties"));
  const node = context.lower(whole(document.below(at, pattern), ...more));
  if (node === null) return null;
  return context.shared(sequence(QUOTE, patternNode(shape, pattern), QUOTE, COLON, node));
}

/**
 * The members within what `minProperties` and `maxProperties` say of their number.
 *
 * Other names may be the same as one another, so that no more than one of them is sure.
 */
function counted(
  context: Context,
  shape: Shape,
  members: readonly Member[],
  other: Node | null,
): Node | null {
  const least = Math.max(0, ...shape.counts("minProperties"));
  const most = smallest(shape.counts("maxProperties"));
  const needed = members.filter((member) => member.required).length;
  if (most !== null && most < Math.max(needed, least)) return null;
  if (other === null && least > members.length) return null;
  if (least > needed && least > 1) {
    throw shape.refused(`minProperties ${said(least)} beside fewer names that are required`);
  }
  const room = most === null ? null : Math.min(most, MAX_LEAST) - members.length;
  if (room !== null && room < 0) throw shape.refused("maxProperties beside more names");
  let inner = inARow(context, members, room === 0 ? null : other, room);
  if (inner === null) return least > 0 ? null : literal("{}");
  if (least === 0 && needed === 0) inner = optional(inner);
  return sequence(literal("{"), inner, literal("}"));
}
