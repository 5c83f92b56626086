/** Plain JSON of what a caller passes: checked and bounded before anything reads it. */

import { EdgewiseError, shorten } from "../errors.ts";

/** Lists and objects within one another; a chat template reads a few more around them. */
const MAX_DEPTH = 48;
const MAX_VALUES = 1 << 16;
const MAX_CHARACTERS = 1 << 20;

export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };
export type JsonTable = { readonly [key: string]: Json };

/**
 * A copy made of JSON's own types: what is no JSON, or too much of it, is refused. What is undefined in an
 * object is not there.
 *
 * @param name what it is, for errors.
 * @throws EdgewiseError with that code.
 */
export function plainJson(value: unknown, name: string, code: string): Json {
  return new Copy(name, code).of(value, 0);
}

/** Whether it is an object as JSON has them. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** One copy under way: how many values and characters it has so far. */
class Copy {
  private values = 0;
  private characters = 0;
  private readonly name: string;
  private readonly code: string;

  constructor(name: string, code: string) {
    this.name = name;
    this.code = code;
  }

  of(value: unknown, depth: number): Json {
    this.values += 1;
    if (this.values > MAX_VALUES || depth > MAX_DEPTH) {
      throw this.refused(
        `${this.name} has more than ${MAX_VALUES} values, or some more than ${MAX_DEPTH} deep ` +
          "within one another.",
      );
    }
    if (value === null || typeof value === "boolean") return value;
    if (typeof value === "string") return this.text(value);
    if (typeof value === "number" && Number.isFinite(value)) return value;
    if (Array.isArray(value)) return value.map((item) => this.of(item, depth + 1));
    if (isTable(value)) {
      const entries = Object.entries(value).filter(([, item]) => item !== undefined);
      return Object.fromEntries(
        entries.map(([key, item]): [string, Json] => [this.text(key), this.of(item, depth + 1)]),
      );
    }
    throw this.refused(`${this.name} has ${shorten(value)} in it, which is no JSON.`);
  }

  private text(text: string): string {
    this.characters += text.length;
    if (this.characters > MAX_CHARACTERS) {
      throw this.refused(`${this.name} has more than ${MAX_CHARACTERS} characters of text.`);
    }
    if (/\p{Surrogate}/u.test(text)) {
      throw this.refused(`${this.name} has ${shorten(text)} in it, half a character.`);
    }
    return text;
  }

  private refused(message: string): EdgewiseError {
    return new EdgewiseError(this.code, message, "Pass plain lists, objects, text and numbers.");
  }
}
