/** Values that nothing is said of, as JSON has them on one line. */

import { jsonEscape } from "../escapes.ts";
import type { Node } from "../nodes.ts";
import { EVERY } from "../ranges.ts";

/** Digits of an integer: all of these are the same where numbers are read as doubles. */
export const WHOLE_DIGITS = 15;

export function literal(text: string): Node {
  return { kind: "literal", text };
}

export function chars(first: number, last: number): Node {
  return { kind: "chars", ranges: [[first, last]] };
}

export function sequence(...items: readonly Node[]): Node {
  return { kind: "sequence", items };
}

/** One of the nodes, or the only one. */
export function choice(items: readonly Node[]): Node {
  const [only] = items;
  return items.length === 1 && only ? only : { kind: "choice", items };
}

export function repeat(item: Node, least: number, most: number | null): Node {
  return { kind: "repeat", item, least, most };
}

export function rule(name: string): Node {
  return { kind: "rule", name };
}

export function optional(node: Node): Node {
  return repeat(node, 0, 1);
}

export const QUOTE = literal('"');
export const COMMA = literal(", ");
export const COLON = literal(": ");
export const DIGIT = chars(48, 57);
export const CHARACTER = jsonEscape(EVERY);

const SIGN = optional(literal("-"));
const WHOLE = choice([literal("0"), sequence(chars(49, 57), repeat(DIGIT, 0, WHOLE_DIGITS - 1))]);
const FRACTION = optional(sequence(literal("."), repeat(DIGIT, 1, WHOLE_DIGITS)));
const PLUS_OR_MINUS: Node = {
  kind: "chars",
  ranges: [
    [43, 43],
    [45, 45],
  ],
};
const EXPONENT = optional(sequence(literal("e"), PLUS_OR_MINUS, chars(49, 57), optional(DIGIT)));

/** Any number of items between two signs. */
function listed(opening: string, item: Node, closing: string): Node {
  const more = repeat(sequence(COMMA, item), 0, null);
  return sequence(literal(opening), optional(sequence(item, more)), literal(closing));
}

/** The rules of any value. */
export const ANYTHING: ReadonlyMap<string, Node> = new Map([
  [
    "value",
    choice([
      ...["null", "true", "false"].map(literal),
      ...["number", "string", "array", "object"].map(rule),
    ]),
  ],
  ["number", sequence(SIGN, WHOLE, FRACTION, EXPONENT)],
  ["string", sequence(QUOTE, repeat(CHARACTER, 0, null), QUOTE)],
  ["array", listed("[", rule("value"), "]")],
  ["object", listed("{", sequence(rule("string"), COLON, rule("value")), "}")],
]);
