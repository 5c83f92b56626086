/** A JSON Schema as it was given: checked, its places numbered, its references followed. */

import { EdgewiseError, shorten } from "../../errors.ts";
import { NAMES, REFUSED } from "./keywords.ts";
import { type Fields, isFields, lengthOf } from "./values.ts";

/** Objects, arrays and what is in them. */
export const MAX_VALUES = 50_000;
/** Objects and arrays within one another. */
export const MAX_DEPTH = 64;
/** Characters of all texts and names. */
export const MAX_TEXT = 1 << 20;

/** The number of a place in a document; the root's is 0. */
export type Place = number;
export type Schema = boolean | Fields;

const SURROGATE = /\p{Surrogate}/u;
const INDEX = /^(?:0|[1-9][0-9]{0,5})$/;

/**
 * A schema and the places in it that were visited.
 *
 * @throws EdgewiseError `input.schema` for what is no JSON, or is too large.
 */
export class Document {
  readonly #held: unknown[];
  readonly #above: (readonly [Place, string])[] = [[0, ""]];
  readonly #below: Map<string, Place>[] = [new Map()];
  readonly #name: string;
  #refers = false;

  constructor(schema: unknown) {
    this.#held = [schema];
    this.#check(schema);
    const name = isFields(schema) ? field(schema, "$id") : undefined;
    this.#name = typeof name === "string" ? name.replace(/#+$/, "") : "";
  }

  #check(schema: unknown): void {
    let level: unknown[] = [schema];
    let [values, characters, depth] = [0, 0, 0];
    while (level.length > 0) {
      const deeper: unknown[] = [];
      for (const value of level) {
        let names: readonly string[] = [];
        let inner: readonly unknown[] = [];
        if (typeof value === "string") names = [value];
        else if (Array.isArray(value)) inner = value;
        else if (isFields(value)) {
          [names, inner] = [Object.keys(value), Object.values(value)];
          this.#refers ||= typeof field(value, "$ref") === "string";
        } else if (value !== null && typeof value !== "boolean" && !isNumber(value)) {
          throw this.wrong(0, `${shorten(value)} is no value of JSON's`);
        }
        for (const each of inner) deeper.push(each);
        for (const name of names) {
          if (SURROGATE.test(name)) throw this.wrong(0, `${shorten(name)} is no text of JSON's`);
          characters += lengthOf(name);
        }
        if (values + level.length + deeper.length > MAX_VALUES) {
          throw this.wrong(0, `there are more than ${said(MAX_VALUES)} values`);
        }
        if (characters > MAX_TEXT) {
          throw this.wrong(0, `there are more than ${said(MAX_TEXT)} characters`);
        }
      }
      values += level.length;
      depth += 1;
      if (depth > MAX_DEPTH + 1) throw this.wrong(0, `there are more than ${MAX_DEPTH} levels`);
      level = deeper;
    }
  }

  /** The place of what a value holds under names or indices that it has. */
  below(place: Place, ...parts: readonly string[]): Place {
    let at = place;
    for (const part of parts) {
      const known = this.#below[at]?.get(part);
      if (known !== undefined) {
        at = known;
        continue;
      }
      const held = this.#held[at];
      const inner = Array.isArray(held) ? held[Number(part)] : field(this.fields(at), part);
      const found = this.#held.push(inner) - 1;
      this.#below[at]?.set(part, found);
      this.#above.push([at, part]);
      this.#below.push(new Map());
      at = found;
    }
    return at;
  }

  /**
   * The schema at a place.
   *
   * @throws EdgewiseError `input.schema` where none is; `unsupported.schema` for a keyword that is
   *   not understood.
   */
  schema(place: Place): Schema {
    const held = this.#held[place];
    if (typeof held === "boolean") return held;
    if (!isFields(held)) throw this.wrong(place, `${shorten(held)} is no schema`);
    for (const keyword of Object.keys(held)) {
      const named = place > 0 && this.#refers && NAMES.includes(keyword);
      if (REFUSED.has(keyword) || (named && typeof field(held, keyword) === "string")) {
        throw this.refused(place, `the keyword ${shorten(keyword)}`);
      }
    }
    return held;
  }

  /** The object at a place. */
  fields(place: Place): Fields {
    const held = this.#held[place];
    if (!isFields(held)) throw this.wrong(place, `${shorten(held)} is no object`);
    return held;
  }

  /** The places of a list of schemas under a keyword. */
  places(place: Place, keyword: string): Place[] {
    const at = this.below(place, keyword);
    const held = this.#held[at];
    if (!Array.isArray(held) || held.length === 0) {
      throw this.wrong(at, `${shorten(held)} is no list of schemas`);
    }
    return held.map((_, i) => this.below(at, String(i)));
  }

  /** The names under a keyword: those that are indices first, as ECMAScript orders them. */
  names(place: Place, keyword: string): string[] {
    return Object.keys(this.fields(this.below(place, keyword)));
  }

  /**
   * Where the reference of a schema leads.
   *
   * @throws EdgewiseError `input.schema` where nothing is; `unsupported.schema` where it leads out
   *   of the document, or is not by JSON pointer.
   */
  target(place: Place): Place {
    const written = field(this.fields(place), "$ref");
    if (typeof written !== "string") {
      throw this.wrong(place, `${shorten(written)} is no reference`);
    }
    const inside =
      this.#name && written.startsWith(this.#name) ? written.slice(this.#name.length) : written;
    if (inside !== "" && inside !== "#" && !inside.startsWith("#/")) {
      throw this.refused(place, `the reference ${shorten(written)}`);
    }
    let found: Place = 0;
    for (const escaped of unquoted(inside.slice(1)).split("/").slice(1)) {
      const part = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
      const held = this.#held[found];
      if (found > 0 && isFields(held) && isNamed(held)) {
        const said = `the reference ${shorten(written)} through a schema with a name`;
        throw this.refused(place, said);
      }
      const there = Array.isArray(held)
        ? INDEX.test(part) && Number(part) < held.length
        : isFields(held) && Object.hasOwn(held, part);
      if (!there) throw this.wrong(place, `nothing is at ${shorten(written)}`);
      found = this.below(found, part);
    }
    return found;
  }

  /** The error for what is not supported. */
  refused(place: Place, what: string): EdgewiseError {
    const where = this.pointer(place);
    return new EdgewiseError(
      "unsupported.schema",
      `The schema at ${where}: ${what} is not supported.`,
    );
  }

  /** The error for what is no schema. */
  wrong(place: Place, what: string): EdgewiseError {
    return new EdgewiseError("input.schema", `The schema at ${this.pointer(place)}: ${what}.`);
  }

  /** A place as a JSON pointer (RFC 6901), shortened. */
  pointer(place: Place): string {
    const parts: string[] = [];
    for (let at = place; at > 0; ) {
      const [above, part] = this.#above[at] ?? [0, ""];
      parts.push(part.slice(0, 80).replaceAll("~", "~0").replaceAll("/", "~1"));
      at = above;
    }
    return ["#", ...parts.reverse()].join("/").slice(0, 200);
  }
}

/** What an object holds under a name of its own. */
export function field(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

function isNamed(fields: Fields): boolean {
  return NAMES.some((keyword) => typeof field(fields, keyword) === "string");
}

/** A count as messages have it. */
export function said(count: number): string {
  return count.toLocaleString("en-US");
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value);
}

function unquoted(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
