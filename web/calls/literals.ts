/** Values in other notations, read into JSON: Python's literals, Gemma's marked strings. As in Python's `calls/literals.py`. */

import { escaped, isJson, MAX_DEPTH } from "./json-scanner.ts";
import {
  NotACallError,
  type Reading,
  type Sink,
  type Source,
  withoutSpaceAfter,
} from "./source.ts";

const SCALAR = /[0-9A-Za-z_.+\u{a1}-\u{ff5b}\u{ff5d}-\u{10ffff}-]+/uy;
const LOOSE = /[^,}\]]+/y;
const DIGITS = [..."0123456789abcdefABCDEF"];
const ESCAPES: readonly (readonly [string, string])[] = [
  ["n", "\n"],
  ["t", "\t"],
  ["r", "\r"],
  ["\\", "\\"],
  ["'", "'"],
  ['"', '"'],
  ["\n", ""],
];
const CODES: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
const LAST_CODE = 0x10ffff;

/** How values are written. */
export interface Notation {
  /** Marks that a string stands between. */
  readonly quotes: readonly string[];
  /** A backslash means something in strings. */
  readonly escapes: boolean;
  /** JSON of the words that mean something. */
  readonly words: ReadonlyMap<string, string>;
  /** Other words are strings. */
  readonly loose: boolean;
  /** Keys of objects have no quotes. */
  readonly bareKeys: boolean;
}

const JSON_WORDS: readonly (readonly [string, string])[] = [
  ["true", "true"],
  ["false", "false"],
  ["null", "null"],
];
const PYTHON: Notation = {
  quotes: ['"', "'"],
  escapes: true,
  words: new Map([["True", "true"], ["False", "false"], ["None", "null"], ...JSON_WORDS]),
  loose: false,
  bareKeys: false,
};

/** Gemma's notation: strings stand between marks of which no string has one. */
export function marked(quote: string): Notation {
  return {
    quotes: [quote],
    escapes: false,
    words: new Map(JSON_WORDS),
    loose: true,
    bareKeys: true,
  };
}

type Key = (source: Source, notation: Notation) => Reading<string>;

/** Read `a=1, b="x")`, the arguments of a call in Python behind its parenthesis. */
export function* keywords(source: Source): Reading<void> {
  yield* readMembers(source, (text) => source.arguments(text), PYTHON, ")", keyword, 1);
}

/** Read `{a:1,b:...}`, the arguments of a call in Gemma's notation. */
export function* members(source: Source, notation: Notation): Reading<void> {
  yield* source.expect("{");
  yield* readMembers(source, (text) => source.arguments(text), notation, "}", key, 1);
}

function* readMembers(
  source: Source,
  emit: Sink,
  notation: Notation,
  close: string,
  readKey: Key,
  depth: number,
): Reading<void> {
  emit("{");
  let separator = "";
  for (;;) {
    yield* source.spaces();
    if (yield* source.literal(close)) break;
    const name = yield* readKey(source, notation);
    emit(`${separator}"${escaped(name)}": `);
    separator = ", ";
    yield* source.spaces();
    yield* value(source, emit, notation, depth);
    yield* source.spaces();
    if ((yield* source.expect(",", close)) === close) break;
  }
  emit("}");
}

function* keyword(source: Source): Reading<string> {
  const name = yield* source.word();
  yield* source.spaces();
  yield* source.expect("=");
  return name;
}

function* key(source: Source, notation: Notation): Reading<string> {
  const mark = yield* quote(source, notation);
  const held: string[] = [];
  if (mark) yield* string(source, (text) => held.push(text), notation, mark);
  else if (notation.bareKeys) held.push(yield* source.word());
  else throw new NotACallError();
  yield* source.spaces();
  yield* source.expect(":");
  return held.join("");
}

function* value(source: Source, emit: Sink, notation: Notation, depth: number): Reading<void> {
  if (depth > MAX_DEPTH) throw new NotACallError();
  const mark = yield* quote(source, notation);
  if (mark) {
    emit('"');
    yield* string(source, (text) => emit(escaped(text)), notation, mark);
    emit('"');
  } else if (yield* source.literal("{")) {
    yield* readMembers(source, emit, notation, "}", key, depth + 1);
  } else if (yield* source.literal("[")) {
    yield* items(source, emit, notation, "]", depth + 1);
  } else if (yield* source.literal("(")) {
    yield* items(source, emit, notation, ")", depth + 1);
  } else {
    emit(yield* scalar(source, notation));
  }
}

function* items(
  source: Source,
  emit: Sink,
  notation: Notation,
  close: string,
  depth: number,
): Reading<void> {
  emit("[");
  let separator = "";
  for (;;) {
    yield* source.spaces();
    if (yield* source.literal(close)) break;
    emit(separator);
    separator = ", ";
    yield* value(source, emit, notation, depth);
    yield* source.spaces();
    if ((yield* source.expect(",", close)) === close) break;
  }
  emit("]");
}

function* scalar(source: Source, notation: Notation): Reading<string> {
  let word = yield* source.word(SCALAR);
  const meant = notation.words.get(word);
  if (meant !== undefined) return meant;
  if (isJson(word)) return word;
  if (!notation.loose) throw new NotACallError();
  if (![",", "}", "]", ""].includes(yield* source.peek())) word += yield* source.word(LOOSE);
  return `"${escaped(withoutSpaceAfter(word))}"`;
}

function* quote(source: Source, notation: Notation): Reading<string> {
  for (const mark of notation.quotes) {
    if (yield* source.literal(mark)) return mark;
  }
  return "";
}

function* string(source: Source, emit: Sink, notation: Notation, mark: string): Reading<void> {
  const marks = notation.escapes ? [mark, "\\", "\n"] : [mark];
  for (;;) {
    const found = yield* source.until(marks, emit);
    if (found === mark) return;
    // Python's strings end in their line.
    if (found !== "\\") throw new NotACallError(found ? "malformed" : "cut");
    emit(yield* escapeIn(source));
  }
}

function* escapeIn(source: Source): Reading<string> {
  const letter = yield* source.peek();
  for (const [short, text] of ESCAPES) {
    if (yield* source.literal(short)) return text;
  }
  const count = CODES[letter];
  if (count === undefined) return "\\"; // as in Python it stands for itself
  yield* source.expect(letter);
  let digits = "";
  for (let i = 0; i < count; i++) digits += yield* source.expect(...DIGITS);
  const code = Number.parseInt(digits, 16);
  if (code > LAST_CODE) throw new NotACallError();
  return String.fromCodePoint(code);
}
