/**
 * What the rules of a tokenizer.json may ask for, found before anything follows them.
 *
 * Each step is an entry of a table that says by how much it can lengthen a text, and by how much
 * shorten it: those of Python's `format/tokenizer_rules.py`. Two things are not looked at here, for
 * the library neither reads a charsmap nor lets an expression leave the worker.
 */

import { shorten } from "../errors.ts";
import { isObject, type JsonObject } from "./json.ts";
import { byteToken, CHARACTER_OF } from "./tokenizing/bytes.ts";

/** Exclusive bound of token ids: sixty times the largest vocabulary that has been published. */
export const MAX_ID = 2 ** 24;

/** What is said of each added token besides its text. */
const FLAGS = ["single_word", "lstrip", "rstrip", "normalized", "special"] as const;
const MAX_STEPS = 32;
const MAX_NESTING = 8;
const MAX_GROWTH = 4096;
const MAX_CONTENT = 256;
const MAX_PIECES = 64;
const MAX_STRIPPED = 64;
const MAX_ADDED = 2 ** 16;
const MAX_WORD = 2 ** 14;
/** Characters of a word that WordPiece cuts, which takes the square of them: 100 in published ones. */
const MAX_CUT_WORD = 256;
/** Characters of a unigram model's token: at each place of a text all that begin there are tried. */
const MAX_PIECE = 256;
/** Characters that Unicode composes into one, at most. */
const COMPOSED = 4;

/** What a step does to a text. */
interface Effect {
  /** Bytes that one byte becomes at most. */
  readonly growth: number;
  /** Characters that become one at most; null for any number. */
  readonly shrink: number | null;
  /** Any number of white spaces may disappear. */
  readonly dropsSpaces: boolean;
}

/** What is known of all rules together. */
export interface Rules {
  readonly growth: number;
  /**
   * Characters of text that a token of the vocabulary stands for at most, white space left out where
   * `dropsSpaces`; null where nothing is known.
   */
  readonly reach: number | null;
  readonly dropsSpaces: boolean;
}

/** Token to id, of a model. */
export type Vocabulary = ReadonlyMap<string, number>;

type Step = (step: JsonObject) => Effect;

const effect = (growth = 1, shrink: number | null = 1, dropsSpaces = false): Effect => ({
  growth,
  shrink,
  dropsSpaces,
});
const always = (found: Effect) => () => found;
const AS_IS = always(effect());
const DROPS_SPACES = always(effect(1, 1, true));

const NORMALIZERS: Readonly<Record<string, Step>> = {
  BertNormalizer: always(effect(12, null)),
  ByteLevel: always(effect(2)),
  Lowercase: always(effect(2)),
  NFC: always(effect(3, COMPOSED)),
  NFD: always(effect(3)),
  NFKC: always(effect(11, COMPOSED)),
  NFKD: always(effect(11)),
  Nmt: always(effect(1, null)),
  Precompiled: always(effect(11, null)),
  Prepend: (step) => effect(1 + bytesOf(textOf(step, "prepend"))),
  Replace: replacing,
  Strip: DROPS_SPACES,
  StripAccents: always(effect(1, null)),
};
const PRE_TOKENIZERS: Readonly<Record<string, Step>> = {
  BertPreTokenizer: DROPS_SPACES,
  ByteLevel: (step) => effect(step.add_prefix_space ? 4 : 2),
  CharDelimiterSplit: always(effect(1, null)),
  Digits: AS_IS,
  FixedLength: (step) => {
    const { length = 5 } = step;
    if (!isWhole(length) || length < 1) throw wrong("it cuts text every so many", length);
    return effect();
  },
  Metaspace: metaspace,
  Punctuation: always(effect(1, null)),
  Split: (step) => {
    const pattern = objectOf(step.pattern, "pattern");
    if (!("Regex" in pattern)) textOf(pattern, "String");
    else textOf(pattern, "Regex", 2 ** 16);
    return effect(1, step.behavior === "Removed" ? null : 1);
  },
  UnicodeScripts: AS_IS,
  Whitespace: DROPS_SPACES,
  WhitespaceSplit: DROPS_SPACES,
};
const DECODERS: Readonly<Record<string, Step>> = {
  BPEDecoder: AS_IS,
  ByteFallback: AS_IS,
  ByteLevel: AS_IS,
  CTC: AS_IS,
  Fuse: AS_IS,
  Metaspace: metaspace,
  Replace: replacing,
  Strip: (step) => {
    for (const count of [step.start, step.stop]) {
      if (!isWhole(count) || count > MAX_STRIPPED) throw wrong("its decoder strips", count);
    }
    return effect();
  },
  WordPiece: AS_IS,
};

/**
 * What is known of the rules of a tokenizer.json.
 *
 * @param vocabulary token to id of its model.
 * @throws TypeError, in words, for rules that would take memory without bounds, and for values of
 *   another kind than they have to be.
 */
export function checkRules(tokenizer: JsonObject, vocabulary: Vocabulary): Rules {
  const encoding = [
    ...effectsOf(tokenizer.normalizer, NORMALIZERS, "normalizers"),
    ...effectsOf(tokenizer.pre_tokenizer, PRE_TOKENIZERS, "pretokenizers"),
  ];
  const decoding = effectsOf(tokenizer.decoder, DECODERS, "decoders");
  checkPostProcessor(tokenizer.post_processor);
  checkAdded(tokenizer.added_tokens);
  for (const effects of [encoding, decoding]) {
    const growth = product(effects.map((each) => each.growth));
    if (growth > MAX_GROWTH) throw wrong("its steps can make text so many times as long", growth);
  }
  let longest = 0;
  for (const token of vocabulary.keys()) longest = Math.max(longest, token.length);
  checkModel(objectOf(tokenizer.model, "model"), longest);
  const shrinks = encoding.map((each) => each.shrink);
  const known = shrinks.filter((shrink) => shrink !== null);
  const told = longest > 0 && known.length === shrinks.length && knowsAll(tokenizer, vocabulary);
  return {
    growth: product(encoding.map((each) => each.growth)),
    reach: told ? product(known) * longest : null,
    dropsSpaces: encoding.some((each) => each.dropsSpaces),
  };
}

/** What each step of a component does, those within sequences as well. */
function effectsOf(
  component: unknown,
  table: Readonly<Record<string, Step>>,
  inner: string,
): readonly Effect[] {
  const found: Effect[] = [];
  const pending: [unknown, number][] = isMissing(component) ? [] : [[component, 0]];
  for (let steps = 1; ; steps++) {
    const next = pending.pop();
    if (!next) return found;
    const [value, depth] = next;
    if (steps > MAX_STEPS || depth > MAX_NESTING) throw wrong(`it has too many ${inner}`, steps);
    const step = objectOf(value, "step");
    const kind = String(step.type);
    if (kind === "Sequence") {
      for (const part of listOf(step[inner], inner)) pending.push([part, depth + 1]);
      continue;
    }
    const read = Object.hasOwn(table, kind) ? table[kind] : undefined;
    if (!read) throw wrong(`it is none of its ${inner}`, step.type);
    found.push(read(step));
  }
}

function replacing(step: JsonObject): Effect {
  const content = bytesOf(textOf(step, "content"));
  const pattern = objectOf(step.pattern, "pattern");
  if ("Regex" in pattern) {
    textOf(pattern, "Regex", 2 ** 16);
    // It may match between any two characters, and any number of them.
    return effect(Math.max(content, 1) + content, null);
  }
  const lookedFor = [...textOf(pattern, "String")].length;
  if (!lookedFor) throw wrong("it replaces nothing by", step.content);
  return effect(Math.max(content, 1), content ? lookedFor : null);
}

function metaspace(step: JsonObject): Effect {
  const mark = textOf(step, "replacement");
  if ([...mark].length !== 1) throw wrong("its Metaspace marks spaces by", mark);
  return effect(2 * bytesOf(mark));
}

/** Check what is put around a text: so many tokens at most, and the text once. */
function checkPostProcessor(component: unknown): void {
  const pending: unknown[] = isMissing(component) ? [] : [component];
  let pieces = 0;
  for (let steps = 1; pending.length > 0; steps++) {
    const step = objectOf(pending.pop(), "post_processor");
    if (step.type === "Sequence") {
      for (const part of listOf(step.processors, "processors")) pending.push(part);
    } else if (step.type === "TemplateProcessing") {
      pieces += addedBy(step);
    } else if (step.type === "BertProcessing" || step.type === "RobertaProcessing") {
      for (const name of ["sep", "cls"]) checkIds(listOf(step[name], name).slice(-1));
    } else if (step.type !== "ByteLevel") {
      throw wrong("it is none of its post-processors", step.type);
    }
    if (pieces > MAX_PIECES || steps > MAX_STEPS) throw wrong("it adds too many tokens", pieces);
  }
}

/** How many tokens a template adds to a text. */
function addedBy(step: JsonObject): number {
  const known = objectOf(step.special_tokens, "special_tokens");
  let added = 0;
  let texts = 0;
  for (const item of listOf(step.single, "single")) {
    const piece = objectOf(item, "piece");
    if ("Sequence" in piece) {
      texts += 1;
      continue;
    }
    const name = objectOf(piece.SpecialToken, "piece").id;
    if (typeof name !== "string" || !Object.hasOwn(known, name)) {
      throw wrong("its template adds what it does not describe", name);
    }
    const ids = listOf(objectOf(known[name], "special token").ids, "ids");
    checkIds(ids);
    added += 1 + ids.length;
    if (added > MAX_PIECES) return added;
  }
  if (texts !== 1) throw wrong("its template has the text so many times", texts);
  return added;
}

function checkAdded(tokens: unknown): void {
  const listed = isMissing(tokens) ? [] : listOf(tokens, "added_tokens");
  if (listed.length > MAX_ADDED) throw wrong("it adds too many tokens", listed.length);
  for (const item of listed) {
    const token = objectOf(item, "added token");
    textOf(token, "content", 2 ** 16);
    checkIds([token.id]);
    for (const name of FLAGS) {
      if (typeof token[name] !== "boolean") throw wrong(`its ${name} is no truth`, token[name]);
    }
  }
}

function checkModel(model: JsonObject, longest: number): void {
  for (const name of ["fuse_unk", "byte_fallback", "ignore_merges"]) {
    const flag = model[name];
    if (!isMissing(flag) && typeof flag !== "boolean") throw wrong(`its ${name} is no truth`, flag);
  }
  if (model.type === "BPE") {
    objectOf(model.vocab, "vocab");
    listOf(model.merges, "merges");
  }
  if (Array.isArray(model.vocab) && longest > MAX_PIECE) {
    throw wrong("its unigram model has a token of so many characters", longest);
  }
  const { max_input_chars_per_word: word = 0 } = model;
  const most = model.type === "WordPiece" ? MAX_CUT_WORD : MAX_WORD;
  if (!isWhole(word) || word > most) throw wrong("it takes words of so many characters", word);
  for (const name of ["unk_token", "continuing_subword_prefix", "end_of_word_suffix"]) {
    if (!isMissing(model[name])) textOf(model, name);
  }
}

/** Whether there is a token for each byte that texts have: then no character is left out. */
function knowsAll({ model, normalizer, pre_tokenizer }: JsonObject, tokens: Vocabulary): boolean {
  const spec = objectOf(model, "model");
  // Words that other models do not know are one token however long they are.
  const marked = spec.continuing_subword_prefix || spec.end_of_word_suffix;
  if (!["BPE", "Unigram"].includes(String(spec.type)) || marked) return false;
  if (spec.byte_fallback === true) {
    return WRITTEN.every((byte) => tokens.has(byteToken(byte)) || tokens.has(ascii(byte)));
  }
  const steps = [normalizer, pre_tokenizer].flatMap((component) => {
    const step = isObject(component) ? component : {};
    return [step, step.normalizers, step.pretokenizers].flat();
  });
  const spells = steps.some((step) => isObject(step) && step.type === "ByteLevel");
  return spells && WRITTEN.every((byte) => tokens.has(CHARACTER_OF[byte] ?? ""));
}

/** Bytes of texts: without control characters and planes that Unicode has nothing in. */
const WRITTEN = Array.from({ length: 256 }, (_, byte) => byte).filter(
  (byte) =>
    [9, 10, 13, 0xf3].includes(byte) ||
    (byte >= 0x20 && byte < 0x7f) ||
    (byte >= 0x80 && byte < 0xc0) ||
    (byte >= 0xc2 && byte <= 0xf0),
);
const ascii = (byte: number) => (byte < 0x80 ? String.fromCharCode(byte) : "");
const product = (factors: readonly number[]) => factors.reduce((a, b) => a * b, 1);
const isMissing = (value: unknown) => value === null || value === undefined;
const isWhole = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;
const bytesOf = (text: string) => new TextEncoder().encode(text).length;

function checkIds(ids: readonly unknown[]): void {
  for (const id of ids) {
    if (!isWhole(id) || id >= MAX_ID) throw wrong("it is no id of a token", id);
  }
}

function textOf(step: JsonObject, name: string, most = MAX_CONTENT): string {
  const value = step[name];
  const short = typeof value === "string" && (value.length <= most || [...value].length <= most);
  if (short && !/\p{Surrogate}/u.test(value)) return value;
  throw wrong(`its ${name} is no text of ${most} characters at most`, value);
}

function objectOf(value: unknown, name: string): JsonObject {
  if (isObject(value)) return value;
  throw wrong(`its ${name} is no object`, value);
}

function listOf(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw wrong(`its ${name} is no list`, value);
}

function wrong(what: string, value: unknown): TypeError {
  return new TypeError(`${what}: ${shorten(value)}`);
}
