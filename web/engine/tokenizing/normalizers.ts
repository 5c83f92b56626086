/** What tokenizers make of a text before they cut it: one entry for each step of a tokenizer.json. */

import { shorten } from "../../errors.ts";
import { isObject, type JsonObject } from "../json.ts";
import { spelled } from "./bytes.ts";
import { CHINESE, CONTROL, MARK, NONSPACING, SPACE, YOUNG } from "./characters.ts";
import { charsmapOf } from "./charsmap.ts";
import { expressionOf, partsOf } from "./patterns.ts";
import { unsupported } from "./unsupported.ts";

/** What a normalizer makes of a text that has something in it. */
export interface Normalizer {
  of(text: string): string;
  /** Whether it leaves out the character that a text begins with: then it is no beginning. */
  beheads(text: string): boolean;
}

type Form = "NFC" | "NFD" | "NFKC" | "NFKD";

const never = () => false;
const mapping = (of: (text: string) => string): Normalizer => ({ of, beheads: never });

/** A step that leaves out some characters. */
function filter(left: string): Normalizer {
  const [all, first] = [new RegExp(`[${left}]`, "gu"), new RegExp(`^[${left}]`, "u")];
  return { of: (text) => text.replace(all, ""), beheads: (text) => first.test(text) };
}

/** Marks that a browser knows and the package does not are characters like others to it. */
const UNKNOWN = new RegExp(`([${YOUNG}]|(?![${MARK}])\\p{M})`, "u");

function form(name: Form): Normalizer {
  const of = (text: string) => text.normalize(name);
  return mapping((text) => {
    if (!UNKNOWN.test(text)) return of(text);
    return text
      .split(UNKNOWN)
      .map((part, i) => (i % 2 ? part : of(part)))
      .join("");
  });
}

/** Small letters, each by itself: how a word ends changes nothing. */
const lowered = (text: string) =>
  text.replace(/\p{Changes_When_Lowercased}/gu, (character) => character.toLowerCase());

function bert(step: JsonObject): Normalizer {
  const [clean, chinese] = [filter(CONTROL), new RegExp(`[${CHINESE}]`, "gu")];
  const [white, marks] = [new RegExp(`[${SPACE}]`, "gu"), filter(NONSPACING)];
  const lowers = step.lowercase !== false;
  const cleans = step.clean_text !== false;
  const strips = typeof step.strip_accents === "boolean" ? step.strip_accents : lowers;
  const decompose = form("NFD");
  return {
    of(text) {
      let found = cleans ? clean.of(text).replace(white, " ") : text;
      if (step.handle_chinese_chars !== false) found = found.replace(chinese, " $& ");
      if (strips) found = marks.of(decompose.of(found));
      return lowers ? lowered(found) : found;
    },
    beheads: (text) => (cleans && clean.beheads(text)) || (strips && marks.beheads(text)),
  };
}

function replacing(step: JsonObject): Normalizer {
  const { content, pattern } = step;
  if (typeof content !== "string") throw new TypeError(`it puts in ${shorten(content)}`);
  const expression = expressionOf(pattern);
  return {
    of: (text) =>
      partsOf(text, expression)
        .map(({ start, end, matches }) => (matches ? content : text.slice(start, end)))
        .join(""),
    beheads(text) {
      const first = content === "" ? partsOf(text, expression)[0] : undefined;
      return first?.matches === true && first.end > 0;
    },
  };
}

const WHITE = new RegExp(`^[${SPACE}]$`, "u");

function stripping({ strip_left, strip_right }: JsonObject): Normalizer {
  const white = (text: string, at: number) => WHITE.test(text.charAt(at));
  const of = (text: string) => {
    let [start, end] = [0, text.length];
    while (strip_left && start < end && white(text, start)) start += 1;
    while (strip_right && start < end && white(text, end - 1)) end -= 1;
    return text.slice(start, end);
  };
  return { of, beheads: (text) => strip_left === true && white(text, 0) };
}

/** Control characters, and what counts as white space, by the rules of neural machine translation. */
const NMT = "\\x01-\\x08\\x0b\\x0e-\\x1f\\x7f\\x8f\\x9f";
const NMT_SPACE = /[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]/gu;

const STEPS: Readonly<Record<string, (step: JsonObject) => Normalizer>> = {
  BertNormalizer: bert,
  ByteLevel: () => mapping(spelled),
  Lowercase: () => mapping(lowered),
  NFC: () => form("NFC"),
  NFD: () => form("NFD"),
  NFKC: () => form("NFKC"),
  NFKD: () => form("NFKD"),
  Nmt: () => {
    const kept = filter(NMT);
    return { ...kept, of: (text) => kept.of(text).replace(NMT_SPACE, " ") };
  },
  Precompiled: (step) => mapping(charsmapOf(step.precompiled_charsmap)),
  Prepend: (step) => {
    const { prepend } = step;
    if (typeof prepend !== "string") throw new TypeError(`it begins with ${shorten(prepend)}`);
    return mapping((text) => (text === "" ? text : prepend + text));
  },
  Replace: replacing,
  Sequence: (step) => sequence(Array.isArray(step.normalizers) ? step.normalizers : []),
  Strip: stripping,
  StripAccents: () => filter(MARK),
};

function sequence(steps: readonly unknown[]): Normalizer {
  const found = steps.map(normalizerOf);
  return {
    of: (text) => found.reduce((before, step) => step.of(before), text),
    beheads(text) {
      let before = text;
      for (const step of found) {
        if (step.beheads(before)) return true;
        before = step.of(before);
      }
      return false;
    },
  };
}

/**
 * @param step a normalizer of a tokenizer.json whose rules have been checked.
 * @throws EdgewiseError `unsupported.tokenizer` for one that is not known.
 */
export function normalizerOf(step: unknown): Normalizer {
  const kind = isObject(step) ? String(step.type) : "";
  const make = Object.hasOwn(STEPS, kind) ? STEPS[kind] : undefined;
  if (!make || !isObject(step)) throw unsupported("normalizer", step);
  return make(step);
}
