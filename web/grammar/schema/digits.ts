/** Numbers between two others, digit by digit. */

import type { Node } from "../nodes.ts";
import {
  chars,
  choice,
  DIGIT,
  literal,
  optional,
  repeat,
  sequence,
  WHOLE_DIGITS,
} from "./anything.ts";

/** Digits after the point. */
export const PLACES = 15;
export const UNIT = 10n ** BigInt(PLACES);
/** The largest integer that is written. */
export const LAST = 10n ** BigInt(WHOLE_DIGITS) - 1n;

const ANY_FIRST = chars(49, 57);

/**
 * What is from one number to another, by what is between two that are at least 0, without a sign
 * before a zero; null where there is nothing.
 */
export function signed(
  first: bigint,
  last: bigint,
  between: (first: bigint, last: bigint) => Node | null,
): Node | null {
  if (first > last) return null;
  const negative = first < 0n ? between(greatest(1n, -last), -first) : null;
  const positive = last >= 0n ? between(greatest(0n, first), last) : null;
  if (negative === null) return positive;
  const below = sequence(literal("-"), negative);
  return positive === null ? below : choice([below, positive]);
}

/** The integers from one to another, of at least 0, without zeros before them. */
export function integers(first: bigint, last: bigint): Node {
  const choices: Node[] = first === 0n ? [literal("0")] : [];
  const counts: number[] = [];
  const to = last > 0n ? String(last).length : 0;
  for (let count = String(greatest(first, 1n)).length; count <= to; count += 1) {
    const [least, most] = [10n ** BigInt(count - 1), 10n ** BigInt(count) - 1n];
    const [low, high] = [greatest(first, least), smallest(last, most)];
    if (low === least && high === most) counts.push(count);
    else choices.push(ofLength(String(low), String(high)));
  }
  const [fewest] = counts;
  if (fewest !== undefined) {
    const more = repeat(DIGIT, fewest - 1, fewest + counts.length - 2);
    choices.push(sequence(ANY_FIRST, more));
  }
  return choice(choices);
}

/** The decimals from one to another of at least 0, both in units of the last place. */
export function decimals(first: bigint, last: bigint): Node {
  let [low, high] = [first / UNIT, last / UNIT];
  const [afterLow, afterHigh] = [first % UNIT, last % UNIT];
  if (low === high) return sequence(literal(String(low)), point(afterLow, afterHigh));
  const choices: Node[] = [];
  if (afterLow > 0n) {
    choices.push(sequence(literal(String(low)), point(afterLow, UNIT - 1n)));
    low += 1n;
  }
  const end: Node[] = [];
  if (afterHigh < UNIT - 1n) {
    end.push(sequence(literal(String(high)), point(0n, afterHigh)));
    high -= 1n;
  }
  if (low <= high) choices.push(sequence(integers(low, high), point(0n, UNIT - 1n)));
  return choice([...choices, ...end]);
}

export function greatest(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}

export function smallest(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

/** Whether digits are all the same one. */
export function areAll(digits: string, digit: string): boolean {
  return digits === digit.repeat(digits.length);
}

/** Digits from some to others, as many of them. */
function ofLength(low: string, high: string): Node {
  const rest = low.length - 1;
  if (rest < 0) return sequence();
  if (areAll(low, "0") && areAll(high, "9")) return repeat(DIGIT, rest + 1, rest + 1);
  const [afterLow, afterHigh] = [low.slice(1), high.slice(1)];
  if (low[0] === high[0]) {
    return sequence(literal(low.slice(0, 1)), ofLength(afterLow, afterHigh));
  }
  return byFirst(
    [Number(low[0]), areAll(afterLow, "0") ? null : ofLength(afterLow, "9".repeat(rest))],
    [Number(high[0]), areAll(afterHigh, "9") ? null : ofLength("0".repeat(rest), afterHigh)],
    repeat(DIGIT, rest, rest),
  );
}

/** What follows the integer of a decimal: digits after a point, from some to others. */
function point(low: bigint, high: bigint): Node {
  const [from, to] = [low, high].map((each) => String(each).padStart(PLACES, "0"));
  const node = sequence(literal("."), places(from ?? "", to ?? ""));
  return low > 0n ? node : optional(node);
}

/** At least one digit, where those that are left out are zeros. */
function places(low: string, high: string): Node {
  const rest = low.length - 1;
  if (areAll(low, "0") && areAll(high, "9")) return repeat(DIGIT, 1, rest + 1);
  if (areAll(high, "0")) return repeat(literal("0"), 1, rest + 1);
  const [afterLow, afterHigh] = [low.slice(1), high.slice(1)];
  if (low[0] === high[0]) {
    return sequence(literal(low.slice(0, 1)), further(afterLow, afterHigh));
  }
  return byFirst(
    [Number(low[0]), areAll(afterLow, "0") ? null : further(afterLow, "9".repeat(rest))],
    [Number(high[0]), areAll(afterHigh, "9") ? null : further("0".repeat(rest), afterHigh)],
    repeat(DIGIT, 0, rest),
  );
}

function further(low: string, high: string): Node {
  if (low === "") return sequence();
  const node = places(low, high);
  return areAll(low, "0") ? optional(node) : node;
}

/**
 * By the first digit: the lowest and the highest with what may follow them where that is not all,
 * and those between.
 */
function byFirst(
  low: readonly [number, Node | null],
  high: readonly [number, Node | null],
  between: Node,
): Node {
  const choices: Node[] = [];
  let [[first, afterLow], [last, afterHigh]] = [low, high];
  if (afterLow !== null) {
    choices.push(sequence(literal(String(first)), afterLow));
    first += 1;
  }
  const end: Node[] = [];
  if (afterHigh !== null) {
    end.push(sequence(literal(String(last)), afterHigh));
    last -= 1;
  }
  if (first <= last) choices.push(sequence(chars(48 + first, 48 + last), between));
  return choice([...choices, ...end]);
}
