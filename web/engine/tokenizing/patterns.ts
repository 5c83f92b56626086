/** Finding what a tokenizer.json calls a pattern, as the tokenizers package finds it. */

import { SplitPreTokenizer } from "@huggingface/tokenizers";
import { shorten } from "../../errors.ts";
import { isObject } from "../json.ts";

/** Part of a text: what an expression matches, or what lies between two matches. */
export interface Found {
  readonly start: number;
  readonly end: number;
  readonly matches: boolean;
}

/**
 * The expression of a pattern, with the flags g and u.
 *
 * Files have Oniguruma's expressions; the library spells them out for JavaScript's.
 *
 * @throws TypeError for what is neither a text nor an expression.
 */
export function expressionOf(pattern: unknown): RegExp {
  if (isObject(pattern) && typeof pattern.String === "string") {
    return new RegExp(pattern.String.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gu");
  }
  if (!isObject(pattern) || typeof pattern.Regex !== "string") {
    throw new TypeError(`it looks for ${shorten(pattern)}`);
  }
  const step = { type: "Split", pattern: { Regex: pattern.Regex }, behavior: "Isolated" };
  const found: unknown = new SplitPreTokenizer({ ...step, invert: false } as never).pattern;
  if (!(found instanceof RegExp)) throw new TypeError(`it looks for ${shorten(pattern)}`);
  return found;
}

/** The whole text in parts, none of them empty but matches of nothing. */
export function partsOf(text: string, expression: RegExp): Found[] {
  const parts: Found[] = [];
  let [kept, last] = [0, -1];
  for (const { index, 0: match } of text.matchAll(expression)) {
    const end = index + match.length;
    // Nothing is found right where a match has ended, in Oniguruma's way of going on.
    if (match === "" && index === last) continue;
    if (kept < index) parts.push({ start: kept, end: index, matches: false });
    parts.push({ start: index, end, matches: true });
    kept = end;
    last = end;
  }
  if (kept < text.length) parts.push({ start: kept, end: text.length, matches: false });
  return parts;
}

/** What becomes of what a pattern matches, by its name in tokenizer.json in small letters. */
const BEHAVIORS: Readonly<Record<string, (parts: readonly Found[]) => readonly Found[]>> = {
  isolated: (parts) => parts,
  removed: (parts) => parts.filter(({ matches }) => !matches),
  contiguous: (parts) => joined(parts, (part, before) => part.matches === before),
  mergedwithprevious: (parts) => joined(parts, (part, before) => part.matches && !before),
  mergedwithnext: (parts) =>
    joined(parts.toReversed(), (part, before) => part.matches && !before).toReversed(),
};

/** Parts with each added to the one before it where `joins` says so. */
function joined(parts: readonly Found[], joins: (part: Found, before: boolean) => boolean) {
  const kept: Found[] = [];
  let before = false;
  for (const part of parts) {
    const last = kept.at(-1);
    if (last && joins(part, before)) {
      const [start, end] = [Math.min(last.start, part.start), Math.max(last.end, part.end)];
      kept[kept.length - 1] = { start, end, matches: last.matches };
    } else {
      kept.push(part);
    }
    before = part.matches;
  }
  return kept;
}

/**
 * How a text is cut around what an expression matches.
 *
 * @param inverted where what does not match counts as what does.
 * @throws TypeError for a behavior that is none.
 */
export function cutter(expression: RegExp, behavior: unknown, inverted = false) {
  const name = String(behavior).toLowerCase();
  const kept = Object.hasOwn(BEHAVIORS, name) ? BEHAVIORS[name] : undefined;
  if (!kept) throw new TypeError(`its cuts are ${shorten(behavior)}`);
  return (text: string): readonly Found[] => {
    const parts = partsOf(text, expression);
    return kept(inverted ? parts.map((part) => ({ ...part, matches: !part.matches })) : parts);
  };
}
