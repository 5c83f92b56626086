/** Integers that are multiples of another, between two bounds. */

import type { Node } from "../nodes.ts";
import { choice, literal, sequence } from "./anything.ts";
import type { Context } from "./context.ts";
import { areAll, greatest, signed, smallest } from "./digits.ts";
import { said } from "./document.ts";
import type { Shape } from "./shape.ts";
import { floorOf } from "./values.ts";

/** Multiples that are written out one by one. */
const MAX_NAMED = 500;
/** What numbers may be multiples of beyond that, without the tens in it. */
const MAX_STEP = 64n;

/**
 * Multiples of a step; null where there are none.
 *
 * @throws EdgewiseError `unsupported.schema` for too many of too large a step.
 */
export function multiples(
  context: Context,
  shape: Shape,
  first: bigint,
  last: bigint,
  step: bigint,
): Node | null {
  const [low, high] = [-floorOf(-first, step), floorOf(last, step)];
  if (low > high) return null;
  if (high - low < MAX_NAMED) {
    const count = Number(high - low) + 1;
    return choice(Array.from({ length: count }, (_, i) => literal(`${step * (low + BigInt(i))}`)));
  }
  const tens = String(step).length - String(step).replace(/0+$/, "").length;
  const ten = 10n ** BigInt(tens);
  const small = step / ten;
  if (small > MAX_STEP) {
    throw shape.refused(`multipleOf ${shown(step)} of more than ${MAX_NAMED} numbers`);
  }
  const remainders = new Remainders(context, Number(small));

  const between = (from: bigint, to: bigint): Node | null => {
    let found = remainders.between(greatest(-floorOf(-from, ten), 1n), to / ten);
    if (found !== null && tens > 0) found = sequence(found, literal("0".repeat(tens)));
    if (from > 0n) return found;
    return found === null ? literal("0") : choice([literal("0"), found]);
  };
  return signed(first, last, between);
}

function shown(step: bigint): string {
  return said(Number(step));
}

/** Digits of multiples of a step: by the remainder that those before them leave. */
class Remainders {
  readonly #context: Context;
  readonly #step: number;
  readonly #free = new Map<string, Node | null>();

  constructor(context: Context, step: number) {
    this.#context = context;
    this.#step = step;
  }

  /** Multiples of at least 1. */
  between(first: bigint, last: bigint): Node | null {
    const choices: Node[] = [];
    const to = first <= last ? String(last).length : 0;
    for (let count = String(first).length; count <= to; count += 1) {
      const low = greatest(first, 10n ** BigInt(count - 1));
      const high = smallest(last, 10n ** BigInt(count) - 1n);
      const found = this.#digits(String(low), String(high), 0);
      if (found !== null) choices.push(found);
    }
    return choices.length > 0 ? choice(choices) : null;
  }

  /** Digits from some to others, after what leaves a remainder. */
  #digits(low: string, high: string, remainder: number): Node | null {
    if (low === "") return remainder > 0 ? null : sequence();
    const free = areAll(low, "0") && areAll(high, "9");
    const key = `${low.length} ${remainder}`;
    const known = free ? this.#free.get(key) : undefined;
    if (known !== undefined) return known;
    const rest = low.length - 1;
    const choices: Node[] = [];
    for (let digit = Number(low[0]); digit <= Number(high[0]); digit += 1) {
      const afterLow = digit === Number(low[0]) ? low.slice(1) : "0".repeat(rest);
      const afterHigh = digit === Number(high[0]) ? high.slice(1) : "9".repeat(rest);
      const left = (remainder * 10 + digit) % this.#step;
      const after = this.#digits(afterLow, afterHigh, left);
      if (after !== null) choices.push(sequence(literal(String(digit)), after));
    }
    const node = choices.length > 0 ? this.#context.shared(choice(choices)) : null;
    if (free) this.#free.set(key, node);
    return node;
  }
}
