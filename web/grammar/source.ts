/** The text of a grammar as tokens, and what is wrong with it by line and column. */

import { EdgewiseError, shorten } from "../errors.ts";
import { LAST, SURROGATES } from "./ranges.ts";

/** Characters of a grammar's text. */
const MAX_LENGTH = 1 << 17;
/** Groups within one another. */
export const MAX_DEPTH = 60;
/** What is repeated a counted number of times. */
const MAX_COUNT = 100_000;

/** The kind of what is of no other kind, which has to be the last of a table. */
export const OTHER = "other";

const ESCAPE = /x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([^\n])/uy;
const CONTROLS: ReadonlyMap<string, number> = new Map([
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["f", 12],
]);
const ITSELF = "\\\"'[]-^/";

export type Counts = readonly [number, number | null];

/** A part of a text: its kind (`end` after the last one), and where it begins. */
export interface Token {
  readonly kind: string;
  readonly text: string;
  readonly at: number;
}

/** A code point of a text in quotes or brackets, and whether it was escaped. */
export interface Point {
  readonly code: number;
  readonly escaped: boolean;
}

/**
 * A text, and its tokens by a table of kinds: the first that matches is taken.
 *
 * The table has an expression without groups for each. What is of the kind `space` is left out, and
 * so is all that comes after something of the kind OTHER, which no syntax takes.
 *
 * @throws EdgewiseError `input.grammar` for a text that is too long.
 */
export class Source {
  readonly tokens: readonly Token[];
  private next = 0;

  constructor(
    private readonly text: string,
    kinds: Readonly<Record<string, string>>,
  ) {
    const length = text.length > MAX_LENGTH ? pointsIn(text) : text.length;
    if (length > MAX_LENGTH) {
      throw new EdgewiseError(
        "input.grammar",
        `A grammar of ${length} characters is longer than ${MAX_LENGTH}.`,
      );
    }
    this.tokens = this.tokenized(kinds);
  }

  private tokenized(kinds: Readonly<Record<string, string>>): Token[] {
    const names = Object.keys(kinds);
    const pattern = Object.values(kinds)
      .map((each) => `(${each})`)
      .join("|");
    const tokens: Token[] = [];
    for (const match of this.text.matchAll(new RegExp(pattern, "gu"))) {
      const group = match.findIndex((text, i) => i > 0 && text !== undefined);
      const kind = names[group - 1] ?? OTHER;
      if (kind !== "space") tokens.push({ kind, text: match[0], at: match.index });
      if (kind === OTHER) break; // nothing is read beyond it; trying on would be quadratic
    }
    return [...tokens, { kind: "end", text: "", at: this.text.length }];
  }

  /** The token that comes next, or one after it. */
  peek(ahead = 0): Token {
    const token = this.tokens[Math.min(this.next + ahead, this.tokens.length - 1)];
    return token ?? { kind: "end", text: "", at: this.text.length };
  }

  take(): Token {
    const token = this.peek();
    this.next += 1;
    return token;
  }

  /** Whether the next token is this sign, which is taken. */
  takes(text: string): boolean {
    const token = this.peek();
    const taken = token.kind === "sign" && token.text === text;
    if (taken) this.next += 1;
    return taken;
  }

  /** The next token, which has to be of a kind. */
  wants(kind: string, what: string): Token {
    const token = this.take();
    if (token.kind !== kind) throw this.unexpected(token, what);
    return token;
  }

  private number(digits: string, at: number): number {
    if (digits.length > 9 || Number(digits) > MAX_COUNT) {
      throw this.wrong(`a count beyond ${MAX_COUNT}`, at);
    }
    return Number(digits);
  }

  /** A counted repetition, whose most is `least` where it is null, and no end where empty. */
  counts(least: string, most: string | null, at: number): Counts {
    const first = this.number(least, at);
    const last = most === null ? first : most ? this.number(most, at) : null;
    if (last !== null && last < first) {
      throw this.wrong("a count whose least is above its most", at);
    }
    return [first, last];
  }

  /** The code points of a text in quotes or brackets. */
  characters(written: string, at: number): Point[] {
    const points: Point[] = [];
    let i = 0;
    while (i < written.length) {
      if (written[i] === "\\") {
        ESCAPE.lastIndex = i + 1;
        const match = ESCAPE.exec(written);
        if (!match) throw this.wrong("a backslash at the end", at + i);
        points.push({ code: this.escaped(match, at + i), escaped: true });
        i = ESCAPE.lastIndex;
      } else {
        const code = written.codePointAt(i) ?? 0;
        points.push({ code, escaped: false });
        i += code > 0xffff ? 2 : 1;
      }
    }
    for (const { code } of points) {
      if (code > LAST || (SURROGATES[0] <= code && code <= SURROGATES[1])) {
        throw this.wrong(`0x${code.toString(16)} is no character`, at);
      }
    }
    return points;
  }

  private escaped(match: RegExpExecArray, at: number): number {
    const digits = match[1] ?? match[2] ?? match[3];
    if (digits) return Number.parseInt(digits, 16);
    const control = CONTROLS.get(match[0]);
    if (control !== undefined) return control;
    if (ITSELF.includes(match[0])) return match[0].charCodeAt(0);
    throw this.refused(`the escape \\${match[0]}`, at);
  }

  unexpected(token: Token, wanted: string): EdgewiseError {
    const found = token.kind === "end" ? "the end" : shorten(token.text);
    return this.wrong(`${found} is unexpected, where ${wanted} should be`, token.at);
  }

  wrong(what: string, at: number): EdgewiseError {
    return new EdgewiseError("input.grammar", `${this.place(at)}: ${what}.`);
  }

  refused(what: string, at: number, remedy = ""): EdgewiseError {
    const said = `${this.place(at)}: ${what} is not supported.`;
    return new EdgewiseError("unsupported.grammar", said, remedy);
  }

  /** What `make` gives; an error of it with the place where the grammar has it. */
  inside<T>(at: number, make: () => T): T {
    try {
      return make();
    } catch (cause) {
      if (!(cause instanceof EdgewiseError)) throw cause;
      const said = `${this.place(at)}: ${cause.message}`;
      throw new EdgewiseError(cause.code, said, cause.remedy, { cause });
    }
  }

  private place(at: number): string {
    const before = this.text.slice(0, at);
    const line = before.split("\n").length;
    const column = pointsIn(before.slice(before.lastIndexOf("\n") + 1)) + 1;
    return `Line ${line}, column ${column} of the grammar`;
  }
}

function pointsIn(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}
