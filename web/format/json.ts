/** JSON that may be hostile, read strictly: the parser of every file the runtime did not make. */

import { EdgewiseError, shorten } from "../errors.ts";

/** Arrays and objects inside each other at most, as in Python. */
const MAX_NESTING = 64;
/**
 * Bytes of memory that Python takes for each of these in a text, for each byte where one character is
 * no ASCII, and all of it may take.
 */
const PARSED = { object: 450, list: 130, comma: 60, wide: 6 };
const SPARE = 90 << 20;
/** Digits of an integer at most: what Python converts. */
const MAX_DIGITS = 4300;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const PLAIN = /^[A-Za-z0-9_./ -]*$/;
const WORD = /true|false|null/y;
const WORDS: ReadonlyMap<string, boolean | null> = new Map([
  ["true", true],
  ["false", false],
  ["null", null],
]);

/**
 * Parse UTF-8 JSON into objects that are Maps, refusing duplicate keys and deep nesting.
 *
 * Objects become Maps so that no key, `__proto__` included, means anything but itself. Integers
 * become numbers, rounded from 2^53 on, which is more than any reader accepts; numbers written
 * with a point or an exponent become `Decimal`, because 1.0 is no integer in Python either.
 *
 * @param domain the first part of the error's code, such as `plan`.
 * @param most values in it at most, as `countValues` counts them.
 * @throws EdgewiseError `<domain>.json`, or `<domain>.size` for too many values, which is known before
 *   any of it is parsed, naming `where`.
 */
export function parseJson(
  data: Uint8Array,
  where: string,
  domain: string,
  most = Number.POSITIVE_INFINITY,
): unknown {
  const { objects, lists, commas, wide } = count(data);
  const parts = objects * PARSED.object + lists * PARSED.list + commas * PARSED.comma;
  const memory = parts + (wide > 0 ? PARSED.wide * data.length : 0);
  const found = objects + lists + commas;
  if (memory > SPARE || found > most) {
    const message = `${where} has ${found} lists, objects and commas, which is too many.`;
    throw new EdgewiseError(`${domain}.size`, message);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    return new Parser(text).whole();
  } catch (cause) {
    throw EdgewiseError.from(cause, `${domain}.json`, `${where} is not valid JSON`);
  }
}

/** Lists, objects and commas of a JSON text, in strings too: nothing in it has more parts. */
export function countValues(data: Uint8Array): number {
  const { objects, lists, commas } = count(data);
  return objects + lists + commas;
}

interface Counts {
  objects: number;
  lists: number;
  commas: number;
  /** Bytes of characters that are no ASCII. */
  wide: number;
}

function count(data: Uint8Array): Counts {
  const found: Counts = { objects: 0, lists: 0, commas: 0, wide: 0 };
  for (const byte of data) {
    if (byte === 0x2c) found.commas += 1;
    else if (byte === 0x5b) found.lists += 1;
    else if (byte === 0x7b) found.objects += 1;
    else if (byte > 0x7f) found.wide += 1;
  }
  return found;
}

/** A number written with a point or an exponent. */
export class Decimal {
  readonly written: string;

  constructor(written: string) {
    this.written = written;
  }

  /** How error messages quote it. */
  toJSON(): string {
    return this.written;
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

class Parser {
  private readonly text: string;
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  whole(): unknown {
    const value = this.value(0);
    this.skip();
    if (this.at < this.text.length) throw this.fail("text after the end");
    return value;
  }

  private value(depth: number): unknown {
    this.skip();
    const first = this.text[this.at];
    if (first === '"') return this.string();
    if (first === "{" || first === "[") {
      if (depth === MAX_NESTING) throw this.fail(`more than ${MAX_NESTING} levels`);
      return first === "{" ? this.object(depth + 1) : this.list(depth + 1);
    }
    const word = this.match(WORD);
    return word ? WORDS.get(word) : this.number();
  }

  private number(): number | Decimal {
    const written = this.match(NUMBER);
    if (!written) throw this.fail(`unexpected ${shorten(this.text.slice(this.at, this.at + 12))}`);
    if (/[.eE]/.test(written)) return new Decimal(written);
    const digits = written.startsWith("-") ? written.length - 1 : written.length;
    if (digits > MAX_DIGITS) throw this.fail(`an integer of ${digits} digits`);
    // Adding 0 makes -0 the 0 that Python reads.
    return Number(written) + 0;
  }

  private object(depth: number): Map<string, unknown> {
    const table = new Map<string, unknown>();
    this.at += 1;
    if (this.take("}")) return table;
    do {
      this.skip();
      if (this.text[this.at] !== '"') throw this.fail("a string was expected");
      const key = this.string();
      if (table.has(key)) throw this.fail(`the key ${shorten(key)} appears twice`);
      this.need(":");
      table.set(key, this.value(depth));
    } while (this.take(","));
    this.need("}");
    return table;
  }

  private list(depth: number): unknown[] {
    const items: unknown[] = [];
    this.at += 1;
    if (this.take("]")) return items;
    do items.push(this.value(depth));
    while (this.take(","));
    this.need("]");
    return items;
  }

  /** The string that begins here. */
  private string(): string {
    const start = this.at;
    let end = start;
    do {
      end = this.text.indexOf('"', end + 1);
      if (end < 0) throw this.fail("a string that does not end");
    } while (this.escaped(end));
    this.at = end + 1;
    const inside = this.text.slice(start + 1, end);
    // JSON.parse knows escapes and refuses control characters; most strings have neither.
    return PLAIN.test(inside) ? inside : String(JSON.parse(`"${inside}"`));
  }

  /** True where an odd number of backslashes comes before. */
  private escaped(quote: number): boolean {
    let first = quote;
    while (this.text[first - 1] === "\\") first -= 1;
    return (quote - first) % 2 === 1;
  }

  private match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.at += found.length;
    return found;
  }

  /** Go on to what is no space, tab or line break. */
  private skip(): void {
    while (isSpace(this.text.charCodeAt(this.at))) this.at += 1;
  }

  private take(sign: string): boolean {
    this.skip();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  private need(sign: string): void {
    if (!this.take(sign)) throw this.fail(`${shorten(sign)} was expected`);
  }

  private fail(message: string): Error {
    return new Error(`${message}, at character ${this.at}.`);
  }
}
