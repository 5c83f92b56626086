/**
 * Regular expressions as trees: what Python's `re` and ECMAScript both have, meaning the same.
 *
 * Where the two differ, a set holds what both of them take: `.` no line terminator of either's, and
 * `\S`, `[^\s]` none of the white space that one of them knows. `\d`, `\w` and `\s` are ASCII's, and
 * so are letters whose case is ignored. What only one of them has, or what is no regular language, is
 * refused by name.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { LAST, others, type Pair, type Ranges, rangesOf, SURROGATES } from "./ranges.ts";
import {
  CLASSES,
  type Class,
  CONTROLS,
  DOT,
  GROUPS,
  negated,
  PUNCTUATION,
  REFUSED_ESCAPES,
  same,
} from "./regex-tables.ts";

/** Characters of an expression. */
const MAX_LENGTH = 8192;
/** Groups within one another. */
const MAX_DEPTH = 60;
/** Characters and classes once every counted repetition is written out. */
const MAX_UNROLLED = 100_000;

/**
 * One character out of these; an anchor: the text's end, or its start; parts one after the other; one
 * of the parts; a part from `least` to `most` times, null being without end.
 */
export type Part =
  | { readonly kind: "set"; readonly ranges: Ranges }
  | { readonly kind: "edge"; readonly end: boolean }
  | { readonly kind: "joined"; readonly parts: readonly Part[] }
  | { readonly kind: "either"; readonly parts: readonly Part[] }
  | {
      readonly kind: "repeated";
      readonly part: Part;
      readonly least: number;
      readonly most: number | null;
    };

type Counts = readonly [number, number | null];

const HEX: ReadonlyMap<string, RegExp> = new Map([
  ["x", /[0-9A-Fa-f]{2}/y],
  ["u", /[0-9A-Fa-f]{4}|\{[0-9A-Fa-f]{1,6}\}/y],
]);
const LOW_SURROGATE = /\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})/y;
const COUNT = /\{([0-9]+)(?:(,)([0-9]*))?\}/y;
const NO_LEAST = /\{,[0-9]*\}/y;
const SIMPLE: ReadonlyMap<string, Counts> = new Map([
  ["*", [0, null]],
  ["+", [1, null]],
  ["?", [0, 1]],
]);
const NAME = /[A-Za-z_][A-Za-z0-9_]{0,63}>/y;

export interface ReadingOptions {
  /** ASCII's letters stand for both of their cases. */
  readonly ignoreCase?: boolean;
  /** `.` is any character. */
  readonly dotAll?: boolean;
}

/**
 * The tree of an expression.
 *
 * @throws EdgewiseError `input.regex` for what is no expression, or is too large;
 *   `unsupported.regex` for what is refused by name.
 */
export function readRegex(pattern: string, options: ReadingOptions = {}): Part {
  return new Reader(pattern, options.ignoreCase ?? false, options.dotAll ?? false).read();
}

class Reader {
  private at = 0;
  private readonly dot: Part;
  private readonly names = new Set<string>();

  constructor(
    private readonly text: string,
    private readonly ignoreCase: boolean,
    dotAll: boolean,
  ) {
    this.dot = { kind: "set", ranges: dotAll ? others([]) : DOT };
  }

  read(): Part {
    if (this.text.length > MAX_LENGTH && pointsIn(this.text) > MAX_LENGTH) {
      throw this.wrong(`is longer than ${MAX_LENGTH} characters`);
    }
    const part = this.either(0);
    if (this.at < this.text.length)
      throw this.wrong("closes a group that it did not open", this.at);
    if (unrolled(part) > MAX_UNROLLED) {
      throw this.wrong(`has more than ${MAX_UNROLLED} characters once its counts are unrolled`);
    }
    return part;
  }

  private either(depth: number): Part {
    if (depth > MAX_DEPTH) {
      throw this.wrong(`has more than ${MAX_DEPTH} groups within one another`, this.at);
    }
    const first = this.joined(depth);
    const parts = [first];
    while (this.take("|")) parts.push(this.joined(depth));
    return parts.length === 1 ? first : { kind: "either", parts };
  }

  private joined(depth: number): Part {
    const parts: Part[] = [];
    while (this.at < this.text.length && !"|)".includes(this.text.charAt(this.at))) {
      parts.push(this.repeated(depth));
    }
    const [only] = parts;
    return parts.length === 1 && only ? only : { kind: "joined", parts };
  }

  private repeated(depth: number): Part {
    const start = this.at;
    const part = this.atom(depth);
    const counts = this.counts();
    if (!counts) return part;
    if (part.kind === "edge") throw this.refused("an anchor that is repeated", start);
    this.take("?"); // a lazy one takes the same texts
    if (this.take("+")) throw this.refused("a possessive repetition", start);
    const second = this.at;
    if (this.counts()) throw this.wrong("repeats a repetition", second);
    return { kind: "repeated", part, least: counts[0], most: counts[1] };
  }

  private counts(): Counts | null {
    const sign = this.text.charAt(this.at);
    const simple = SIMPLE.get(sign);
    if (simple) {
      this.at += 1;
      return simple;
    }
    if (sign !== "{") return null;
    const match = this.match(COUNT);
    if (!match) {
      if (this.match(NO_LEAST)) throw this.refused("a count without its least", this.at);
      return null;
    }
    const least = numberOf(match[1] ?? "");
    const most = !match[2] ? least : match[3] ? numberOf(match[3]) : null;
    if (Math.max(least, most ?? 0) > MAX_UNROLLED) {
      throw this.wrong(`counts beyond ${MAX_UNROLLED}`, this.at);
    }
    if (most !== null && most < least) {
      throw this.wrong("has a count whose least is above its most", this.at);
    }
    this.at += match[0].length;
    return [least, most];
  }

  private atom(depth: number): Part {
    const start = this.at;
    const sign = String.fromCodePoint(this.text.codePointAt(start) ?? 0);
    if (sign === "{" && (this.match(COUNT) || this.match(NO_LEAST))) {
      throw this.wrong("repeats nothing", start);
    }
    this.at += sign.length;
    if (sign === "(") return this.group(depth, start);
    if (sign === "[") return this.set(start);
    if (sign === ".") return this.dot;
    if ("^$".includes(sign)) return { kind: "edge", end: sign === "$" };
    if ("*+?".includes(sign)) throw this.wrong("repeats nothing", start);
    const item = sign === "\\" ? this.escape(start, false) : this.point(sign, start);
    return { kind: "set", ranges: this.folded(item, start).sure };
  }

  private group(depth: number, start: number): Part {
    const [mark = "", what = null] =
      GROUPS.find(([begins]) => this.text.startsWith(begins, this.at)) ?? [];
    if (what !== null && what !== "name") throw this.refused(what, start);
    this.at += mark.length;
    if (what === "name") this.name(start);
    const part = this.either(depth + 1);
    if (!this.take(")")) throw this.wrong("has a group that is not closed", start);
    return part;
  }

  private name(start: number): void {
    const match = this.match(NAME);
    if (!match || this.names.has(match[0])) {
      throw this.wrong("has a group whose name is none, or is another's", start);
    }
    this.names.add(match[0]);
    this.at += match[0].length;
  }

  private set(start: number): Part {
    const complement = this.take("^");
    if (this.text.startsWith("]", this.at)) {
      throw this.refused("a class that is empty or begins with ]", start);
    }
    const sure: Pair[] = [];
    const perhaps: Pair[] = [];
    while (!this.take("]")) {
      const item = this.folded(this.classItem(start), start);
      sure.push(...item.sure);
      perhaps.push(...item.perhaps);
    }
    const found = { sure: rangesOf(sure), perhaps: rangesOf(perhaps) };
    const ranges = (complement ? negated(found) : found).sure;
    if (ranges.length === 0) throw this.wrong("has a class that holds no character", start);
    return { kind: "set", ranges };
  }

  private classItem(start: number): Class | number | Pair {
    const first = this.classPoint(start);
    const follows = this.text.slice(this.at, this.at + 2);
    if (!follows.startsWith("-") || follows === "-" || follows === "-]") return first;
    const at = this.at;
    this.at += 1;
    const last = this.classPoint(start);
    if (typeof first !== "number" || typeof last !== "number") {
      throw this.refused("a range from or to a class", at);
    }
    if (last < first) throw this.wrong("has a range whose last is before its first", at);
    return [first, last];
  }

  private classPoint(start: number): Class | number {
    const at = this.at;
    if (at >= this.text.length) throw this.wrong("has a class that is not closed", start);
    const sign = String.fromCodePoint(this.text.codePointAt(at) ?? 0);
    this.at += sign.length;
    return sign === "\\" ? this.escape(at, true) : this.point(sign, at);
  }

  private escape(start: number, inClass: boolean): Class | number {
    if (this.at >= this.text.length) throw this.wrong("ends with a backslash", start);
    const sign = String.fromCodePoint(this.text.codePointAt(this.at) ?? 0);
    this.at += sign.length;
    const known = CLASSES.get(sign) ?? CONTROLS.get(sign);
    if (known !== undefined) return known;
    const digits = HEX.get(sign);
    if (digits) return this.hex(sign, digits, start);
    if (PUNCTUATION.includes(sign)) return sign.charCodeAt(0);
    if (inClass && sign === "b") return 8;
    if (sign === "0" && !/[0-9]/.test(this.text.charAt(this.at))) return 0;
    throw this.refused(REFUSED_ESCAPES.get(sign) ?? `the escape \\${sign}`, start);
  }

  private hex(sign: string, digits: RegExp, start: number): number {
    const match = this.match(digits);
    if (!match) throw this.wrong(`has an escape \\${sign} without its digits`, start);
    this.at += match[0].length;
    const code = Number.parseInt(match[0].replace("{", ""), 16);
    if (code > LAST) throw this.wrong("has an escape beyond the last code point", start);
    if (code >> 10 === SURROGATES[0] >> 10 && !match[0].startsWith("{")) {
      const low = this.match(LOW_SURROGATE);
      if (low) {
        this.at += low[0].length;
        return 0x10000 + ((code & 0x3ff) << 10) + (Number.parseInt(low[1] ?? "", 16) & 0x3ff);
      }
    }
    return this.code(code, start);
  }

  private point(sign: string, start: number): number {
    return this.code(sign.codePointAt(0) ?? 0, start);
  }

  private code(code: number, start: number): number {
    if (SURROGATES[0] <= code && code <= SURROGATES[1]) {
      throw this.wrong("has half of a surrogate pair", start);
    }
    return code;
  }

  /** What an item holds, letters in both cases where that is asked. */
  private folded(item: Class | number | Pair, start: number): Class {
    if (typeof item === "object" && "sure" in item) return item;
    const pair: Pair = typeof item === "number" ? [item, item] : item;
    if (!this.ignoreCase) return same(rangesOf([pair]));
    if (pair[1] > 0x7f) {
      throw this.refused("a character beyond ASCII whose case is ignored", start);
    }
    const sure = rangesOf([pair, ...within(pair, 0x61, -0x20), ...within(pair, 0x41, 0x20)]);
    // What else becomes a `k` or an `s` by Unicode's rules.
    const signs: Pair[] = [];
    if (holds(sure, 0x6b)) signs.push([0x212a, 0x212a]);
    if (holds(sure, 0x73)) signs.push([0x17f, 0x17f]);
    return { sure, perhaps: rangesOf([...sure, ...signs]) };
  }

  private take(sign: string): boolean {
    const taken = this.text.startsWith(sign, this.at);
    if (taken) this.at += sign.length;
    return taken;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  private wrong(what: string, at?: number): EdgewiseError {
    const said = `The regular expression ${shorten(this.text)} ${what}${this.place(at)}.`;
    return new EdgewiseError("input.regex", said);
  }

  private refused(what: string, at: number): EdgewiseError {
    return new EdgewiseError(
      "unsupported.regex",
      `The regular expression ${shorten(this.text)} has ${what}${this.place(at)}.`,
      "Write it without: what Python and ECMAScript share of regular expressions is known.",
    );
  }

  private place(at?: number): string {
    return at === undefined ? "" : `, at character ${pointsIn(this.text.slice(0, at)) + 1}`;
  }
}

function pointsIn(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** A count's value, or one beyond every bound. */
function numberOf(digits: string): number {
  return digits.length < 10 ? Number(digits) : MAX_UNROLLED + 1;
}

/** The other case of those letters of a pair that are among the 26 from `first` on. */
function within(pair: Pair, first: number, by: number): Pair[] {
  const start = Math.max(pair[0], first);
  const end = Math.min(pair[1], first + 25);
  return start <= end ? [[start + by, end + by]] : [];
}

function holds(ranges: Ranges, code: number): boolean {
  return ranges.some(([first, last]) => first <= code && code <= last);
}

/** Characters and classes of a part with its counted repetitions written out. */
function unrolled(part: Part): number {
  switch (part.kind) {
    case "joined":
    case "either":
      return part.parts.reduce((sum, each) => sum + unrolled(each), 1);
    case "repeated":
      return unrolled(part.part) * Math.max(1, part.least, part.most ?? 0);
    default:
      return 1;
  }
}
