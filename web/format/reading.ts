/** Typed reading of JSON that may be hostile: every field is checked before anything uses it. */

import { EdgewiseError, shorten } from "../errors.ts";

/** Names of buffers, symbols, kernels and plans: nothing a path could be made of. */
export const NAME = /^[A-Za-z_][A-Za-z0-9_.]{0,127}$/;
/** Ids a person may choose: a bundle's name, a program's id, a layout's name. */
export const ID = /^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$/;
export const HEX_SHA256 = /^[0-9a-f]{64}$/;
/** Exclusive bound of every integer: what a JavaScript number holds exactly. */
export const LIMIT = 2 ** 53;

/** One JSON object being read: every getter checks, `done` refuses what nobody asked for. */
export class Fields {
  /** What messages call this object, such as `Plan "decode", buffer "x"`. */
  where: string;
  readonly domain: string;
  private readonly asked = new Set<string>();
  private readonly entries: ReadonlyMap<string, unknown>;

  constructor(value: unknown, where: string, domain: string) {
    this.where = where;
    this.domain = domain;
    if (!(value instanceof Map)) {
      throw this.fail("type", `expected an object, found ${shorten(value)}`);
    }
    this.entries = value;
  }

  fail(what: string, message: string, remedy = ""): EdgewiseError {
    return new EdgewiseError(`${this.domain}.${what}`, `${this.where}: ${message}.`, remedy);
  }

  has(key: string): boolean {
    return this.entries.has(key);
  }

  get(key: string): unknown {
    this.asked.add(key);
    if (!this.entries.has(key)) throw this.fail("missing", `${shorten(key)} is missing`);
    return this.entries.get(key);
  }

  /** Refuse every `version` but this one. */
  version(expected: number): void {
    const found = this.get("version");
    if (found === expected) return;
    throw this.fail(
      "version",
      `version ${shorten(found)} is not ${expected}, the one this runtime reads`,
      "Compile the model again with this version of edgewise, or update edgewise.",
    );
  }

  /** An integer in `low..high` inclusive. */
  integer(key: string, low: number, high: number): number {
    const value = this.get(key);
    // An integer beyond what numbers hold is Infinity here, which is out of any range.
    if (typeof value !== "number" || (Number.isFinite(value) && !Number.isInteger(value))) {
      throw this.fail("type", `${shorten(key)} must be an integer, found ${shorten(value)}`);
    }
    if (value < low || value > high) {
      throw this.fail("range", `${shorten(key)} must be in ${low}..${high}, found ${value}`);
    }
    return value;
  }

  /** True or false. */
  flag(key: string): boolean {
    const value = this.get(key);
    if (typeof value === "boolean") return value;
    throw this.fail("type", `${shorten(key)} must be true or false, found ${shorten(value)}`);
  }

  /** A string of at most `most` characters that `pattern`, if given, matches entirely. */
  text(key: string, pattern: RegExp | null = null, most = 256): string {
    const value = this.get(key);
    // Python counts code points; counting them here too makes both refuse alike.
    if (typeof value !== "string" || [...value.slice(0, 2 * most + 1)].length > most) {
      throw this.fail("type", `${shorten(key)} must be a short string, found ${shorten(value)}`);
    }
    if (pattern && !pattern.test(value)) {
      throw this.fail("name", `${shorten(key)} has characters it may not: ${shorten(value)}`);
    }
    return value;
  }

  /** A string out of `allowed`. */
  choice<const T extends string>(key: string, allowed: readonly T[]): T {
    const value = this.get(key);
    const found = allowed.find((item) => item === value);
    if (found === undefined) {
      const options = allowed.join(", ");
      throw this.fail(key, `${shorten(key)} must be one of ${options}, found ${shorten(value)}`);
    }
    return found;
  }

  /** A list of at most `most` items, each still unchecked. */
  items(key: string, most: number): readonly unknown[] {
    const value = this.get(key);
    if (!Array.isArray(value) || value.length > most) {
      throw this.fail("type", `${shorten(key)} must be a list of at most ${most} items`);
    }
    return value;
  }

  /** A list of distinct names. */
  names(key: string, most: number, pattern: RegExp = NAME): readonly string[] {
    const found = new Set<string>();
    for (const item of this.items(key, most)) {
      if (typeof item !== "string" || !pattern.test(item)) {
        throw this.fail(
          "name",
          `${shorten(key)} holds something that is no name: ${shorten(item)}`,
        );
      }
      if (found.has(item)) {
        throw this.fail("duplicate", `${shorten(key)} names ${shorten(item)} twice`);
      }
      found.add(item);
    }
    return [...found];
  }

  /** An object of at most `most` entries whose keys match `pattern`. */
  table(key: string, most: number, pattern: RegExp | null = NAME): ReadonlyMap<string, unknown> {
    const value = this.get(key);
    if (!(value instanceof Map) || value.size > most) {
      throw this.fail("type", `${shorten(key)} must be an object of at most ${most} entries`);
    }
    for (const name of value.keys()) {
      if (pattern && !pattern.test(name)) {
        throw this.fail(
          "name",
          `${shorten(key)} holds something that is no name: ${shorten(name)}`,
        );
      }
    }
    return value;
  }

  /** null where the key holds null, otherwise what `read` returns. */
  nullable<T>(key: string, read: () => T): T | null {
    return this.get(key) === null ? null : read();
  }

  /** Refuse keys that no getter asked for. */
  done(): void {
    for (const key of this.entries.keys()) {
      if (!this.asked.has(key)) throw this.fail("unknown_field", `unknown field ${shorten(key)}`);
    }
  }
}
