/** Schemas that must all hold, with what they refer to, taken together. */

import { type EdgewiseError, shorten } from "../../errors.ts";
import { type Document, field, type Place } from "./document.ts";
import { OF_TYPE, TYPES, type TypeName } from "./keywords.ts";

/** A schema: all of it, only what is its own, or only that one of some schemas holds. */
export interface Atom {
  readonly part: "all" | "own" | "anyOf" | "oneOf";
  readonly place: Place;
}

/** What must hold together. */
export type Atoms = readonly Atom[];

export function whole(...places: readonly Place[]): Atom[] {
  return places.map((place) => ({ part: "all", place }));
}

export function keyOf(atom: Atom): string {
  return `${atom.part}${atom.place}`;
}

/**
 * The same without schemas that are made of others, each atom once; null if nothing holds.
 *
 * @throws EdgewiseError `unsupported.schema` for what is made of itself, which no validator ends on.
 */
export function expanded(document: Document, atoms: Atoms): Atoms | null {
  const found = new Map<string, Atom>();
  const seen = new Set<string>();
  const within = new Set<string>();
  const waiting = atoms.toReversed().map((atom) => ({ atom, left: false }));
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { atom, left } = next;
    const { part, place } = atom;
    const key = keyOf(atom);
    if (left) within.delete(key);
    if (within.has(key)) {
      throw document.refused(place, "a schema that refers to itself, nothing between,");
    }
    if (seen.has(key)) continue;
    seen.add(key);
    if (part !== "all") {
      found.set(key, atom);
      continue;
    }
    const schema = document.schema(place);
    if (typeof schema === "boolean") {
      if (!schema) return null;
      continue;
    }
    const inner: Atom[] = [{ part: "own", place }];
    if (Object.hasOwn(schema, "$ref")) inner.push(...whole(document.target(place)));
    if (Object.hasOwn(schema, "allOf")) inner.push(...whole(...document.places(place, "allOf")));
    if (Object.hasOwn(schema, "anyOf")) inner.push({ part: "anyOf", place });
    if (Object.hasOwn(schema, "oneOf")) inner.push({ part: "oneOf", place });
    within.add(key);
    waiting.push({ atom, left: true });
    for (const each of inner.reverse()) waiting.push({ atom: each, left: false });
  }
  return [...found.values()];
}

/** Schemas' own keywords, which must all hold. */
export class Shape {
  constructor(
    readonly document: Document,
    readonly places: readonly Place[],
  ) {}

  /** The first, for errors. */
  get place(): Place {
    return this.places[0] ?? 0;
  }

  /** What each schema that has a keyword says, and where that schema is. */
  said(keyword: string): (readonly [Place, unknown])[] {
    return this.places
      .filter((place) => Object.hasOwn(this.document.fields(place), keyword))
      .map((place) => [place, field(this.document.fields(place), keyword)]);
  }

  has(...keywords: readonly string[]): boolean {
    return this.places.some((place) => {
      const fields = this.document.fields(place);
      return keywords.some((keyword) => Object.hasOwn(fields, keyword));
    });
  }

  /** What is said by a keyword whose values are counts. */
  counts(keyword: string): number[] {
    return this.said(keyword).map(([place, value]) => {
      if (typeof value !== "number" || value < 0 || !Number.isInteger(value)) {
        throw this.document.wrong(place, `${keyword} ${shorten(value)} is no count`);
      }
      return value;
    });
  }

  /** What is said by a keyword whose values are numbers. */
  numbers(keyword: string): number[] {
    return this.said(keyword).map(([place, value]) => {
      if (typeof value !== "number") {
        throw this.document.wrong(place, `${keyword} ${shorten(value)} is no number`);
      }
      return value;
    });
  }

  /** What is said by a keyword whose values are texts, each once. */
  texts(keyword: string): string[] {
    const found = this.said(keyword).map(([place, value]) => {
      if (typeof value !== "string") {
        throw this.document.wrong(place, `${keyword} ${shorten(value)} is no text`);
      }
      return value;
    });
    return [...new Set(found)];
  }

  refused(what: string): EdgewiseError {
    return this.document.refused(this.place, what);
  }

  /** The types that are said, of which a number may be an integer; null where none is. */
  types(): readonly TypeName[] | null {
    const sets = this.said("type").map(([place, value]) => {
      const some: unknown = typeof value === "string" ? [value] : value;
      if (!isTypes(some)) throw this.document.wrong(place, `type ${shorten(value)} is none`);
      return new Set<TypeName>([...some, ...(some.includes("number") ? ["integer" as const] : [])]);
    });
    if (sets.length === 0) return null;
    const found = TYPES.filter((each) => sets.every((set) => set.has(each)));
    return found.filter((each) => each !== "integer" || !found.includes("number"));
  }

  /**
   * The types that texts are written of: where none is said those of which something is said, and
   * where nothing is, all.
   */
  writtenTypes(): readonly TypeName[] {
    const types = this.types();
    if (types !== null) return types;
    const spoken = [...OF_TYPE].filter(([, keywords]) => this.has(...keywords));
    if (spoken.length > 0) return spoken.map(([name]) => name);
    return TYPES.filter((name) => name !== "integer");
  }
}

function isTypes(value: unknown): value is readonly TypeName[] {
  return Array.isArray(value) && value.every((each) => TYPES.some((name) => name === each));
}
