/** Arrays of a schema. */

import type { Node } from "../nodes.ts";
import { namedValues } from "./admitting.ts";
import { COMMA, literal, optional, repeat, sequence } from "./anything.ts";
import type { Context } from "./context.ts";
import { field, type Place, said } from "./document.ts";
import { inARow } from "./members.ts";
import { type Atoms, expanded, Shape, whole } from "./shape.ts";
import { spelled } from "./values.ts";

/** What may be asked for at least; what is allowed at most is no more than this, either. */
export const MAX_LEAST = 100_000;

/** The smallest of some counts; null where there is none. */
export function smallest(counts: readonly number[]): number | null {
  return counts.length > 0 ? Math.min(...counts) : null;
}

/**
 * Arrays under a shape; null where there are none.
 *
 * What comes after `prefixItems` is written only where `items` says what it is, or where `minItems`
 * asks for it.
 */
export function arrayNode(context: Context, shape: Shape): Node | null {
  const least = Math.max(0, ...shape.counts("minItems"));
  let most = smallest(shape.counts("maxItems"));
  if (least > MAX_LEAST) {
    throw shape.refused(`minItems ${said(least)}, which is above ${said(MAX_LEAST)},`);
  }
  const [first, rest] = itemsOf(shape);
  if (first.length === 0 && least === 0 && !shape.has("items", "maxItems", "uniqueItems")) {
    return context.anything("array");
  }
  if (most === null && first.length > 0 && rest.length === 0) {
    if (!shape.has("items", "additionalItems")) most = Math.max(least, first.length);
  }
  if (most !== null && most < least) return null;
  const unique = shape.said("uniqueItems").some(([, value]) => value !== false);
  if (unique && (most === null || most > 1)) {
    return different(context, shape, first.length > 0 ? [] : rest, least, most);
  }
  return written(context, first, rest, least, most);
}

/** Some of the values that items are named by, in their order. */
function different(
  context: Context,
  shape: Shape,
  items: Atoms,
  least: number,
  most: number | null,
): Node | null {
  const atoms = expanded(context.document, items) ?? [];
  const places = atoms.map((atom) => atom.place);
  const own = atoms.every((atom) => atom.part === "own");
  const values = own ? namedValues(new Shape(context.document, places)) : null;
  const length = values?.length ?? 0;
  if (values === null || (least > 1 && least < length) || (most !== null && most < length)) {
    throw shape.refused("uniqueItems of other than any number of values that are named");
  }
  if (least > length) return null;
  const members = values.map((value) => ({ node: literal(spelled(value)), required: least > 1 }));
  const inner = inARow(context, members, null, null);
  if (inner === null) return literal("[]");
  return sequence(literal("["), least > 0 ? inner : optional(inner), literal("]"));
}

/** The schemas of each of the first items, and of all that come after them. */
function itemsOf(shape: Shape): readonly [readonly Atoms[], Atoms] {
  const lists: (readonly [readonly Place[], readonly Place[]])[] = [];
  for (const place of shape.places) {
    const fields = shape.document.fields(place);
    const listed = Array.isArray(field(fields, "items"));
    const [prefix, after] = listed ? ["items", "additionalItems"] : ["prefixItems", "items"];
    const first = Object.hasOwn(fields, prefix) ? shape.document.places(place, prefix) : [];
    lists.push([first, Object.hasOwn(fields, after) ? [shape.document.below(place, after)] : []]);
  }
  const length = Math.max(0, ...lists.map(([first]) => first.length));
  const items = Array.from({ length }, (_, i) =>
    whole(...lists.flatMap(([first, rest]) => (i < first.length ? first.slice(i, i + 1) : rest))),
  );
  return [items, whole(...lists.flatMap(([, rest]) => rest))];
}

/** Items with commas between them. From the last on, what follows each is put behind it. */
function written(
  context: Context,
  first: readonly Atoms[],
  rest: Atoms,
  least: number,
  most: number | null,
): Node | null {
  const count = most === null ? first.length : Math.min(first.length, most);
  const nodes = first.slice(0, count).map((atoms) => context.lower(atoms));
  const room = most === null ? null : Math.min(most, MAX_LEAST) - count;
  let tail = sequence();
  if (room === null || room > 0) {
    const item = context.lower(rest);
    const again = Math.max(0, least - count);
    if (item === null && again > 0) return null;
    if (item !== null && count > 0) tail = repeat(sequence(COMMA, item), again, room);
    else if (item !== null) {
      const more = repeat(sequence(COMMA, item), Math.max(0, again - 1), less(room));
      tail = sequence(item, more);
      if (least === 0) tail = optional(tail);
    }
  }
  for (let i = count - 1; i >= least; i -= 1) {
    const node = nodes[i];
    if (!node) tail = sequence();
    else {
      tail = context.shared(optional(i > 0 ? sequence(COMMA, node, tail) : sequence(node, tail)));
    }
  }
  const fixed: Node[] = [];
  for (const node of nodes.slice(0, least)) {
    if (node === null) return null;
    if (fixed.length > 0) fixed.push(COMMA);
    fixed.push(node);
  }
  return sequence(literal("["), ...fixed, tail, literal("]"));
}

function less(count: number | null): number | null {
  return count === null ? null : count - 1;
}
