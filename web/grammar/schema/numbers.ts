/**
 * Integers and numbers of a schema.
 *
 * A number is written in decimals. Whoever reads it as a double sees it on the same side of a bound
 * as whoever reads it exactly: rounding keeps the order, and beside a bound that is excluded no
 * number is written that is nearer to it than one digit in fifteen.
 */

import { shorten } from "../../errors.ts";
import type { Node } from "../nodes.ts";
import type { Context } from "./context.ts";
import { decimals, greatest, integers, LAST, PLACES, signed, smallest, UNIT } from "./digits.ts";
import { multiples } from "./multiples.ts";
import type { Shape } from "./shape.ts";
import { scaled } from "./values.ts";

const BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

/** Integers under a shape, of at most 15 digits; null where there are none. */
export function integerNode(context: Context, shape: Shape): Node | null {
  const first = [
    ...shape.numbers("minimum").map((each) => scaled(each, 0, true)),
    ...shape.numbers("exclusiveMinimum").map((each) => scaled(each, 0, false) + 1n),
  ].reduce(greatest, -LAST);
  const last = [
    ...shape.numbers("maximum").map((each) => scaled(each, 0, false)),
    ...shape.numbers("exclusiveMaximum").map((each) => scaled(each, 0, true) - 1n),
  ].reduce(smallest, LAST);
  const step = stepOf(shape);
  if (step > 1n) return multiples(context, shape, first, last, step);
  return signed(first, last, integers);
}

/**
 * Numbers under a shape: decimals of 15 digits before and after the point, with an exponent only
 * where there are no bounds; null where there are none.
 */
export function numberNode(context: Context, shape: Shape): Node | null {
  if (shape.has("multipleOf")) return integerNode(context, shape);
  if (!shape.has(...BOUNDS)) return context.anything("number");
  const most = LAST * UNIT + UNIT - 1n;
  const first = [
    ...shape.numbers("minimum").map((each) => scaled(each, PLACES, true)),
    ...shape.numbers("exclusiveMinimum").map(above),
  ].reduce(greatest, -most);
  const last = [
    ...shape.numbers("maximum").map((each) => scaled(each, PLACES, false)),
    ...shape.numbers("exclusiveMaximum").map((each) => -above(-each)),
  ].reduce(smallest, most);
  return signed(first, last, decimals);
}

/**
 * The decimal above a number, in units of the last place, of as many places as leave it apart when
 * both are read as doubles.
 */
function above(value: number): bigint {
  const floor = scaled(value, 0, value < 0);
  const whole = floor < 0n ? -floor : floor;
  const places = whole > 0n ? Math.max(0, PLACES - String(whole).length) : PLACES;
  return (scaled(value, places, false) + 1n) * 10n ** BigInt(PLACES - places);
}

/** What all numbers are a multiple of; 1 where nothing is said. */
function stepOf(shape: Shape): bigint {
  let step = 1n;
  for (const each of shape.numbers("multipleOf")) {
    if (each <= 0) {
      throw shape.document.wrong(shape.place, `multipleOf ${shorten(each)} is not above 0`);
    }
    if (!Number.isSafeInteger(each)) {
      throw shape.refused(`multipleOf ${shorten(each)}, which is no integer of 53 bits,`);
    }
    step = (step / common(step, BigInt(each))) * BigInt(each);
  }
  return step;
}

/** The greatest divisor of both. */
function common(one: bigint, other: bigint): bigint {
  return other === 0n ? one : common(other, one % other);
}
