/**
 * A template's source as tokens, with white space left out where Jinja leaves it out.
 *
 * As transformers sets Jinja up: a line break after a tag and white space before one on its line go
 * (`trim_blocks`, `lstrip_blocks`), and so does a line break at the very end.
 */

import { isSpace, SPACE, STRIPS } from "./python-text.ts";
import { TemplateError } from "./run.ts";
import { Float } from "./values.ts";

const MAX_TOKENS = 1 << 16;

const OPENING = /\{([{%#])([-+]?)/g;
const RAW = sticky(`\\{%[-+]?[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})`);
const END_RAW = new RegExp(
  `\\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`,
  "g",
);
const CLOSING = {
  "%": sticky(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`),
  "{": sticky(`-\\}\\}[${SPACE}]*|\\}\\}`),
} as const;
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, "g");
const BLANK = sticky(`[${SPACE}]+`);
const TOKEN = sticky(
  [
    "(?<float>(?<!\\.)[0-9]+(?:_[0-9]+)*(?:\\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))",
    "(?<integer>0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|[1-9](?:_?[0-9])*|0(?:_?0)*)",
    "(?<name>[A-Za-z_][A-Za-z0-9_]*)",
    "(?<text>'[^'\\\\]*(?:\\\\[^][^'\\\\]*)*'|\"[^\"\\\\]*(?:\\\\[^][^\"\\\\]*)*\")",
    "(?<sign>//|\\*\\*|==|!=|>=|<=|[-+*/%~[\\](){}<>=.:|,])",
  ].join("|"),
);
const ESCAPE = /\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))/gsu;
const LETTERS: Readonly<Record<string, string>> = {
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  "'": "'",
  '"': '"',
  "\n": "",
};
const PAIRS: Readonly<Record<string, string>> = { ")": "(", "]": "[", "}": "{" };
const MAX_DIGITS = 40;

type Mark = keyof typeof CLOSING;

/** A part of a template: `open` and `close` have `%` or `{` as their value. */
export type Token = { readonly line: number } & (
  | {
      readonly kind: "data" | "open" | "close" | "name" | "sign" | "text" | "end";
      readonly value: string;
    }
  | { readonly kind: "number"; readonly value: number | Float }
);

/** A template that is not valid. */
export class TemplateSyntaxError extends TemplateError {
  constructor(said: string, line: number) {
    super(`${said} (line ${line})`);
  }
}

/**
 * A template's tokens, the last of which is `end`.
 *
 * @throws TemplateSyntaxError, also for too many of them.
 */
export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  for (const token of new Source(source).tokens()) {
    tokens.push(token);
    if (tokens.length > MAX_TOKENS) {
      throw new TemplateSyntaxError(`it has more than ${MAX_TOKENS} tokens`, token.line);
    }
  }
  return tokens;
}

function sticky(pattern: string): RegExp {
  return new RegExp(pattern, "y");
}

class Source {
  private readonly text: string;
  private at = 0;
  private line = 1;
  private lineStarts = true;

  constructor(source: string) {
    this.text = source.replace(/\r\n|\r/g, "\n").replace(/\n$/, "");
  }

  *tokens(): Generator<Token> {
    for (let opening = this.find(OPENING); opening; opening = this.find(OPENING)) {
      const [, mark = "", sign = ""] = opening;
      const start = opening.index;
      const raw = this.match(RAW, start);
      yield* this.data(start, sign, mark !== "{");
      if (raw) {
        this.advance(start + raw[0].length);
        yield* this.raw();
      } else if (mark === "#") {
        this.advance(start + opening[0].length);
        const end = this.found(COMMENT_END, "comment");
        this.close(end.index + end[0].length);
      } else {
        this.advance(start + opening[0].length);
        yield { kind: "open", value: mark, line: this.line };
        yield* this.tag(mark === "%" ? "%" : "{");
      }
    }
    yield* this.data(this.text.length, "+", false);
    yield { kind: "end", value: "the end of the template", line: this.line };
  }

  /** The text up to a tag, of which what belongs to the tag is left out. */
  private *data(end: number, sign: string, strips: boolean): Generator<Token> {
    let text = this.text.slice(this.at, end);
    const { line } = this;
    this.advance(end);
    if (sign === "-") text = STRIPS.rstrip(text, undefined);
    else if (sign !== "+" && strips) {
      const start = text.lastIndexOf("\n") + 1;
      if ((start > 0 || this.lineStarts) && isSpace(text.slice(start))) text = text.slice(0, start);
    }
    if (text !== "") yield { kind: "data", value: text, line };
  }

  private *raw(): Generator<Token> {
    this.lineStarts = this.text[this.at - 1] === "\n";
    const end = this.found(END_RAW, "raw block");
    yield* this.data(end.index, end[1] ?? "", true);
    this.close(end.index + end[0].length);
  }

  private *tag(mark: Mark): Generator<Token> {
    const nested: string[] = [];
    while (true) {
      const space = this.match(BLANK, this.at);
      if (space) this.advance(this.at + space[0].length);
      const closing = nested.length > 0 ? null : this.match(CLOSING[mark], this.at);
      if (closing) {
        yield { kind: "close", value: mark, line: this.line };
        this.close(this.at + closing[0].length);
        return;
      }
      const match = this.match(TOKEN, this.at);
      if (!match?.groups) {
        const left = this.text.slice(this.at, this.at + 1);
        throw this.error(left ? `${JSON.stringify(left)} is unexpected` : "a tag has no end");
      }
      const [text] = match;
      if (match.groups.sign !== undefined) {
        if ("([{".includes(text)) nested.push(text);
        else if (text in PAIRS && nested.pop() !== PAIRS[text]) {
          throw this.error(`'${text}' is unexpected`);
        }
      }
      yield this.token(match.groups, text);
      this.advance(this.at + text.length);
    }
  }

  private token(groups: Record<string, string | undefined>, text: string): Token {
    const { line } = this;
    if (groups.name !== undefined) return { kind: "name", value: text, line };
    if (groups.sign !== undefined) return { kind: "sign", value: text, line };
    if (groups.text !== undefined) {
      const value = text
        .slice(1, -1)
        .replace(ESCAPE, (written, ...parts) => this.unescaped(written, parts));
      return { kind: "text", value, line };
    }
    const digits = text.replaceAll("_", "");
    if (digits.length > MAX_DIGITS) throw this.error("a number has too many digits");
    const value = Number(digits);
    if (groups.float !== undefined) {
      if (!Number.isFinite(value)) throw this.error(`the number ${digits} is too large`);
      return { kind: "number", value: new Float(value), line };
    }
    if (!Number.isSafeInteger(value)) throw this.error(`the number ${digits} is too large`);
    return { kind: "number", value, line };
  }

  private unescaped(written: string, parts: readonly (string | undefined)[]): string {
    const [octal, two, four, eight, letter] = parts;
    if (letter !== undefined) {
      if ("xuUN".includes(letter) || letter > "\x7f") {
        throw this.error(`the escape ${JSON.stringify(written)} is not supported`);
      }
      return LETTERS[letter] ?? written;
    }
    const code = octal
      ? Number.parseInt(octal, 8)
      : Number.parseInt(two ?? four ?? eight ?? "", 16);
    if ((code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
      throw this.error(`the escape ${JSON.stringify(written)} is no character`);
    }
    return String.fromCodePoint(code);
  }

  private find(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  private match(pattern: RegExp, at: number): RegExpExecArray | null {
    pattern.lastIndex = at;
    return pattern.exec(this.text);
  }

  private found(end: RegExp, what: string): RegExpExecArray {
    const found = this.find(end);
    if (!found) throw this.error(`a ${what} has no end`);
    return found;
  }

  private close(end: number): void {
    this.lineStarts = this.text[end - 1] === "\n";
    this.advance(end);
  }

  private advance(end: number): void {
    for (let i = this.at; i < end; i++) if (this.text[i] === "\n") this.line += 1;
    this.at = end;
  }

  private error(said: string): TemplateSyntaxError {
    return new TemplateSyntaxError(said, this.line);
  }
}
