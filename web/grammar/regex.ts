/** Regular expressions lowered to a grammar's nodes. */

import { EdgewiseError, shorten } from "../errors.ts";
import { type Escape, plain } from "./escapes.ts";
import { type Node, simplified } from "./nodes.ts";
import { common, EVERY, sameRanges } from "./ranges.ts";
import { type Part, readRegex } from "./regex-reader.ts";

/**
 * What an expression has to match: the whole text; something within it, as `RegExp.test` and JSON
 * Schema's `pattern` have it; or a part of a text, whose ends are not the text's.
 */
export type Where = "whole" | "within" | "part";

export interface RegexOptions {
  readonly where?: Where;
  readonly escape?: Escape;
  readonly ignoreCase?: boolean;
  readonly dotAll?: boolean;
}

const EMPTY: Part = { kind: "joined", parts: [] };
const ANYTHING: Part = {
  kind: "repeated",
  part: { kind: "set", ranges: EVERY },
  least: 0,
  most: null,
};

/**
 * A node that takes the texts in which an expression matches, each character spelled by `escape`.
 *
 * The expression is of what Python's `re` and ECMAScript share (`regex-reader`). `^` may stand where
 * a text starts, `$` where it ends (of lines, neither is); lazy repetitions are what greedy ones are,
 * since all that counts is whether there is a match.
 *
 * @throws EdgewiseError `input.regex` for what is no expression, or is too large;
 *   `unsupported.regex` for what is refused by name, and for an anchor elsewhere.
 */
export function lowerRegex(pattern: string, options: RegexOptions = {}): Node {
  const { where = "whole", escape: spell = plain, ignoreCase = false, dotAll = false } = options;
  let part = readRegex(pattern, { ignoreCase, dotAll });
  if (where !== "part") {
    const beside = where === "within" ? ANYTHING : EMPTY;
    part = atEdge(atEdge(part, false, beside), true, beside);
  }
  if (has(part, false) || has(part, true)) {
    throw new EdgewiseError(
      "unsupported.regex",
      `The regular expression ${shorten(pattern)} has an anchor (^ or $) where the text neither ` +
        "starts nor ends.",
      "Leave the anchor out, or write the alternatives that have it by themselves.",
    );
  }
  return simplified(lowered(part, spell));
}

/** The part without the anchors at one edge of it, and with `beside` where there is none. */
function atEdge(part: Part, end: boolean, beside: Part): Part {
  if (isEdge(part, end)) return EMPTY;
  if (part.kind === "either") {
    return { kind: "either", parts: part.parts.map((each) => atEdge(each, end, beside)) };
  }
  if (part.kind !== "joined") return joined(end ? [part, beside] : [beside, part]);
  let inwards = end ? part.parts.toReversed() : [...part.parts];
  const found = inwards.findIndex((each) => !isEdge(each, end));
  const anchors = found < 0 ? inwards.length : found;
  const [first] = inwards;
  if (anchors > 0) inwards = inwards.slice(anchors);
  else if (first && has(first, end)) inwards[0] = atEdge(first, end, beside);
  else inwards.unshift(beside);
  return joined(end ? inwards.toReversed() : inwards);
}

function isEdge(part: Part, end: boolean): boolean {
  return part.kind === "edge" && part.end === end;
}

function has(part: Part, end: boolean): boolean {
  switch (part.kind) {
    case "edge":
      return part.end === end;
    case "joined":
    case "either":
      return part.parts.some((each) => has(each, end));
    case "repeated":
      return has(part.part, end);
    case "set":
      return false;
  }
}

/**
 * The parts in a row; of two endless repetitions side by side of which one takes all that the other
 * does, only that one: there are many ways to tell them apart, and no use in it.
 */
function joined(parts: readonly Part[]): Part {
  const kept: Part[] = [];
  for (const part of parts) {
    let before = kept.at(-1);
    if (before && swallows(before, part)) continue;
    while (before && swallows(part, before)) {
      kept.pop();
      before = kept.at(-1);
    }
    kept.push(part);
  }
  return { kind: "joined", parts: kept };
}

function swallows(one: Part, other: Part): boolean {
  if (one.kind !== "repeated" || other.kind !== "repeated") return false;
  if (one.part.kind !== "set" || other.part.kind !== "set") return false;
  if (one.least > 0 || other.least > 0 || one.most !== null || other.most !== null) return false;
  return sameRanges(common(one.part.ranges, other.part.ranges), other.part.ranges);
}

function lowered(part: Part, spell: Escape): Node {
  switch (part.kind) {
    case "set":
      return spell(part.ranges);
    case "joined":
      return { kind: "sequence", items: part.parts.map((each) => lowered(each, spell)) };
    case "either":
      return { kind: "choice", items: part.parts.map((each) => lowered(each, spell)) };
    case "repeated": {
      const { least, most } = part;
      return { kind: "repeat", item: lowered(part.part, spell), least, most };
    }
    case "edge":
      return { kind: "sequence", items: [] };
  }
}
