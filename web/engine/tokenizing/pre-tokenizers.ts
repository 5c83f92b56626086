/** How tokenizers cut a text before their model sees it: one entry for each step of a tokenizer.json. */

import { shorten } from "../../errors.ts";
import { isObject, type JsonObject } from "../json.ts";
import { spelled } from "./bytes.ts";
import { PUNCTUATION, SPACE, WORD } from "./characters.ts";
import { cutter, expressionOf } from "./patterns.ts";
import { unsupported } from "./unsupported.ts";

/** A part of a text; `first` where it begins what was given, with nothing left out before it. */
export interface Piece {
  readonly text: string;
  readonly first: boolean;
}

type Step = (piece: Piece) => readonly Piece[];

const classed = (inside: string) => new RegExp(`[${inside}]`, "gu");

/** A step that cuts around what an expression matches. */
function cutting(expression: RegExp, behavior: unknown, inverted = false): Step {
  const parts = cutter(expression, behavior, inverted);
  return ({ text, first }) =>
    parts(text).map(({ start, end }) => ({
      text: text.slice(start, end),
      first: first && start === 0,
    }));
}

/** How a byte-level pre-tokenizer without a pattern of its own splits. */
const WORDS = new RegExp(
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+" +
    `| ?[^${SPACE}\\p{L}\\p{N}]+|[${SPACE}]+(?![^${SPACE}])|[${SPACE}]+`,
  "gu",
);

function byteLevel(step: JsonObject): Step {
  const cut = step.use_regex === false ? null : cutting(WORDS, "Isolated");
  return (piece) => {
    const prefixed = step.add_prefix_space === true && !piece.text.startsWith(" ");
    const whole = prefixed ? { ...piece, text: ` ${piece.text}` } : piece;
    return (cut?.(whole) ?? [whole]).map((part) => ({ ...part, text: spelled(part.text) }));
  };
}

function metaspace(step: JsonObject): Step {
  const mark = step.replacement;
  if (typeof mark !== "string" || [...mark].length !== 1) {
    throw new TypeError(`its Metaspace marks spaces by ${shorten(mark)}`);
  }
  const scheme = schemeOf(step);
  const cut = cutting(expressionOf({ String: mark }), "MergedWithNext");
  return ({ text, first }) => {
    const marked = text.replaceAll(" ", () => mark);
    const prefixed =
      !marked.startsWith(mark) && (scheme === "always" || (scheme === "first" && first));
    const piece = { text: prefixed ? mark + marked : marked, first };
    return step.split === false ? [piece] : cut(piece);
  };
}

/** When a space is put before a text: older files only say whether. */
function schemeOf(step: JsonObject): "always" | "first" | "never" {
  const scheme = step.prepend_scheme ?? "always";
  if (scheme !== "always" && scheme !== "first" && scheme !== "never") {
    throw new TypeError(`its Metaspace begins texts as ${shorten(scheme)}`);
  }
  if (step.add_prefix_space !== false) return scheme;
  if (scheme === "always" && "prepend_scheme" in step) {
    throw new TypeError("its Metaspace says twice whether texts begin with a space");
  }
  return "never";
}

function fixedLength(step: JsonObject): Step {
  const { length = 5 } = step;
  if (typeof length !== "number" || !Number.isInteger(length) || length < 1) {
    throw new TypeError(`it cuts text every ${shorten(length)} characters`);
  }
  return ({ text, first }) => {
    const characters = [...text];
    const pieces: Piece[] = [];
    for (let at = 0; at < characters.length; at += length) {
      const part = characters.slice(at, at + length).join("");
      pieces.push({ text: part, first: first && at === 0 });
    }
    return pieces;
  };
}

const blank = classed(SPACE);

const STEPS: Readonly<Record<string, (step: JsonObject) => Step>> = {
  BertPreTokenizer: () =>
    sequence([cutting(blank, "Removed"), cutting(classed(PUNCTUATION), "Isolated")]),
  ByteLevel: byteLevel,
  CharDelimiterSplit: (step) => cutting(expressionOf({ String: step.delimiter }), "Removed"),
  Digits: (step) =>
    cutting(classed("\\p{N}"), step.individual_digits === true ? "Isolated" : "Contiguous"),
  FixedLength: fixedLength,
  Metaspace: metaspace,
  Punctuation: (step) => cutting(classed(PUNCTUATION), step.behavior ?? "Isolated"),
  Sequence: (step) =>
    sequence((Array.isArray(step.pretokenizers) ? step.pretokenizers : []).map(stepOf)),
  Split: (step) => cutting(expressionOf(step.pattern), step.behavior, step.invert === true),
  Whitespace: () => cutting(new RegExp(`[${WORD}]+|[^${WORD}${SPACE}]+`, "gu"), "Removed", true),
  WhitespaceSplit: () => cutting(blank, "Removed"),
};

function sequence(steps: readonly Step[]): Step {
  return (piece) =>
    steps.reduce<readonly Piece[]>(
      (pieces, step) => pieces.flatMap(step).filter(({ text }) => text !== ""),
      [piece],
    );
}

function stepOf(step: unknown): Step {
  const kind = isObject(step) ? String(step.type) : "";
  const make = Object.hasOwn(STEPS, kind) ? STEPS[kind] : undefined;
  if (!make || !isObject(step)) throw unsupported("pre-tokenizer", step);
  return make(step);
}

/**
 * What cuts a text for a model; none of the pieces is empty.
 *
 * @param step a pre-tokenizer of a tokenizer.json whose rules have been checked.
 * @throws EdgewiseError `unsupported.tokenizer` for one that is not known.
 */
export const preTokenizerOf = (step: unknown): Step => sequence([stepOf(step)]);
