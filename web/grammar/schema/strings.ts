/** Strings of a schema. */

import { EdgewiseError, shorten } from "../../errors.ts";
import { jsonEscape } from "../escapes.ts";
import type { Node } from "../nodes.ts";
import { lowerRegex } from "../regex.ts";
import { CHARACTER, QUOTE, repeat, sequence } from "./anything.ts";
import { MAX_LEAST, smallest } from "./arrays.ts";
import type { Context } from "./context.ts";
import { said } from "./document.ts";
import { FORMATS } from "./formats.ts";
import { REFUSED_FORMATS } from "./keywords.ts";
import { inJson, lengthened, limited, longest, shortest } from "./lengths.ts";
import type { Shape } from "./shape.ts";

/** Strings under a shape; null where there are none. */
export function stringNode(context: Context, shape: Shape): Node | null {
  const least = Math.max(0, ...shape.counts("minLength"));
  const most = smallest(shape.counts("maxLength"));
  if (least > MAX_LEAST) {
    throw shape.refused(`minLength ${said(least)}, which is above ${said(MAX_LEAST)},`);
  }
  if (most !== null && most < least) return null;
  const patterns = shape.texts("pattern");
  for (const name of shape.texts("format")) {
    if (REFUSED_FORMATS.has(name)) throw shape.refused(`the format ${shorten(name)}`);
    const pattern = FORMATS.get(name);
    if (pattern !== undefined) patterns.push(pattern);
  }
  const [pattern] = patterns;
  if (patterns.length > 1) {
    throw shape.refused("more than one pattern or format of the same string");
  }
  if (pattern !== undefined) return ofPattern(shape, pattern, least, most);
  if (least === 0 && most === null) return context.anything("string");
  const bounded = most === null ? null : Math.min(most, MAX_LEAST);
  return sequence(QUOTE, repeat(CHARACTER, least, bounded), QUOTE);
}

/** What an expression is found in, as it is written in a string. */
export function patternNode(shape: Shape, pattern: string): Node {
  try {
    return lowerRegex(pattern, { where: "within", escape: jsonEscape });
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    if (error.code === "unsupported.regex") {
      throw shape.refused(`a pattern: ${error.message} It`);
    }
    throw shape.document.wrong(shape.place, error.message);
  }
}

function ofPattern(shape: Shape, pattern: string, least: number, most: number | null): Node | null {
  const written = patternNode(shape, pattern);
  if (least === 0 && most === null) return sequence(QUOTE, written, QUOTE);
  const node = lowerRegex(pattern, { where: "within" });
  if (node.kind === "repeat" && shortest(node.item) === 1 && longest(node.item) === 1) {
    const from = Math.max(least, node.least);
    const to = smallest([most, node.most].filter((each) => each !== null));
    if (to !== null && to < from) return null;
    return sequence(QUOTE, inJson(repeat(node.item, from, to)), QUOTE);
  }
  let fitting = lengthened(node, least);
  if (fitting !== null && most !== null) fitting = limited(fitting, most);
  if (fitting === null) {
    throw shape.refused("a length beside a pattern or a format that allows others");
  }
  return sequence(QUOTE, inJson(fitting), QUOTE);
}
