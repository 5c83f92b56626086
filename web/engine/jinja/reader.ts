/** The tokens of a template, as its grammar reads them. */

import { TemplateSyntaxError, type Token } from "./lexer.ts";

/** Expressions and blocks within one another. */
const MAX_NESTING = 60;

export const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);
export const RESERVED: ReadonlySet<string> = new Set([
  "not",
  "and",
  "or",
  "in",
  "is",
  "if",
  "else",
]);

/** Tokens one after the other, and what is expected of them. */
export class TokenReader {
  protected at = 0;
  private nesting = 0;

  constructor(private readonly tokens: readonly Token[]) {}

  get token(): Token {
    return this.peek(0);
  }

  advance(): Token {
    const { token } = this;
    this.at += 1;
    return token;
  }

  error(said: string): TemplateSyntaxError {
    return new TemplateSyntaxError(said, this.token.line);
  }

  enter(): void {
    this.nesting += 1;
    if (this.nesting > MAX_NESTING) throw this.error(`it nests more than ${MAX_NESTING} deep`);
  }

  leave(): void {
    this.nesting -= 1;
  }

  isSign(sign: string): boolean {
    return this.token.kind === "sign" && this.token.value === sign;
  }

  skip(sign: string): boolean {
    const found = this.isSign(sign);
    if (found) this.at += 1;
    return found;
  }

  sign(sign: string): void {
    if (!this.skip(sign)) throw this.error(`'${sign}' is missing before ${this.next()}`);
  }

  skipWord(word: string): boolean {
    const found = this.token.kind === "name" && this.token.value === word;
    if (found) this.at += 1;
    return found;
  }

  word(word: string): void {
    if (!this.skipWord(word)) throw this.error(`'${word}' is missing before ${this.next()}`);
  }

  name(what: string): string {
    if (this.token.kind !== "name") throw this.error(`${what} is missing before ${this.next()}`);
    return String(this.advance().value);
  }

  settable(): string {
    const name = this.name("a name");
    if (CONSTANTS.has(name) || RESERVED.has(name)) throw this.error(`${name} cannot be set`);
    return name;
  }

  dotted(what: string): string {
    let name = this.name(what);
    while (this.skip(".")) name += `.${this.name(what)}`;
    return name;
  }

  close(): void {
    if (this.token.kind !== "close") throw this.error(`${this.next()} is unexpected`);
    this.advance();
  }

  protected next(): string {
    const { kind, value } = this.token;
    return kind === "close" ? "the end of the tag" : JSON.stringify(value).slice(0, 40);
  }

  protected peek(ahead: number): Token {
    const token = this.tokens[this.at + ahead] ?? this.tokens.at(-1);
    if (!token) throw new TemplateSyntaxError("it has no end", 0);
    return token;
  }
}
