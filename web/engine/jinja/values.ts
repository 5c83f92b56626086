/**
 * The values of a template, and how they are written: as in Python.
 *
 * Text, lists and dicts are never changed, so only a namespace can hold itself, and none is written.
 */

import { isPrintable, quoted } from "./python-text.ts";
import { type Run, TemplateError, TemplateLimitError } from "./run.ts";

/** Lists and dicts within one another that are written or compared. */
export const MAX_NESTED = 100;

export type Key = string | number;
export type Dict = ReadonlyMap<Key, Value>;
/** Numbers are whole; others are Floats. */
export type Value =
  | null
  | boolean
  | number
  | Float
  | string
  | readonly Value[]
  | Tuple
  | Dict
  | Undefined
  | Marked
  | Namespace
  | Stream
  | Loop
  | Callable;

export class Float {
  constructor(readonly number: number) {}
}

export class Tuple {
  constructor(readonly items: readonly Value[]) {}
}

/** A name or member that there is none of. */
export class Undefined {
  constructor(readonly said: string) {}
}

/** Text whose &, <, > and quotes stand for themselves: the result of `safe` and `escape`. */
export class Marked {
  constructor(readonly text: string) {}
}

/** Values that a template may set from within its loops. */
export class Namespace {
  constructor(readonly values: Map<string, Value>) {}
}

/** Items that can be gone through once, as those of Python's generators. */
export class Stream {
  constructor(private items: readonly Value[]) {}

  take(): readonly Value[] {
    const taken = this.items;
    this.items = [];
    return taken;
  }
}

/** What `loop` is within a loop. */
export class Loop {
  index0 = 0;
  changed: readonly Value[] | null = null;

  constructor(readonly items: readonly Value[]) {}
}

/** What a template can call. */
export class Callable {
  constructor(
    readonly name: string,
    readonly call: (run: Run, given: Arguments) => Value,
  ) {}
}

/** Stands for the default of a parameter that has none. */
export const REQUIRED = new Undefined("an argument is missing");

/** What a function, filter or test is called with. */
export class Arguments {
  constructor(
    readonly placed: readonly Value[],
    readonly named: ReadonlyMap<string, Value>,
  ) {}

  /** A value for each parameter, in order; REQUIRED ones have no default. */
  bind<const Names extends readonly (readonly [string, Value])[]>(
    name: string,
    parameters: Names,
  ): { [Place in keyof Names]: Value } {
    if (this.placed.length > parameters.length) {
      throw new TemplateError(`${name} takes at most ${parameters.length} arguments`);
    }
    const bound = new Map<string, Value>();
    for (const [i, value] of this.placed.entries()) bound.set(parameters[i]?.[0] ?? "", value);
    const known = new Set(parameters.map(([parameter]) => parameter));
    for (const [given, value] of this.named) {
      if (!known.has(given) || bound.has(given)) {
        throw new TemplateError(`${name} takes no argument ${given}, or takes it once`);
      }
      bound.set(given, value);
    }
    const values = parameters.map(([parameter, otherwise]) => {
      const value = bound.get(parameter);
      if (value === undefined && otherwise === REQUIRED) {
        throw new TemplateError(`${name} needs ${parameter}`);
      }
      return value === undefined ? otherwise : value;
    });
    return values as { [Place in keyof Names]: Value };
  }
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

export function isDict(value: Value): value is Dict {
  return value instanceof Map;
}

export function truth(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (typeof value === "boolean") return value;
  if (typeof value === "number") return value !== 0;
  if (value instanceof Float) return value.number !== 0;
  if (typeof value === "string") return value !== "";
  if (value instanceof Marked) return value.text !== "";
  if (value instanceof Tuple) return value.items.length > 0;
  if (isList(value)) return value.length > 0;
  return isDict(value) ? value.size > 0 : true;
}

/** The name of a value's type, for messages and tables. */
export function kind(value: Value): string {
  if (value === null) return "none";
  if (typeof value === "boolean") return "boolean";
  if (typeof value === "number") return "integer";
  if (typeof value === "string") return "text";
  if (isList(value)) return "list";
  if (isDict(value)) return "dict";
  return KINDS.find(([type]) => value instanceof type)?.[1] ?? "function";
}

const KINDS = [
  [Float, "float"],
  [Marked, "marked text"],
  [Tuple, "tuple"],
  [Undefined, "undefined"],
  [Namespace, "namespace"],
  [Stream, "stream"],
  [Loop, "loop"],
] as const;

/** A text as it is; anything else is refused. */
export function plainText(value: Value, what: string): string {
  if (typeof value === "string") return value;
  if (value instanceof Undefined) throw new TemplateError(value.said);
  throw new TemplateError(`${what} takes text, not ${kind(value)}`);
}

export function whole(value: Value, what: string): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  throw new TemplateError(`${what} takes whole numbers, not ${kind(value)}`);
}

/** A value as Python's `str` writes it. */
export function textOf(run: Run, value: Value): string {
  if (typeof value === "string") return value;
  if (value instanceof Marked) return value.text;
  if (value instanceof Undefined) return "";
  const pieces: string[] = [];
  represent(run, value, pieces, 0);
  return pieces.join("");
}

const NAMED = new Map<Value, string>([
  [null, "None"],
  [true, "True"],
  [false, "False"],
]);

function represent(run: Run, value: Value, pieces: string[], depth: number): void {
  deeper(run, depth);
  const named = NAMED.get(value);
  if (named !== undefined || typeof value === "number" || value instanceof Float) {
    pieces.push(run.made(named ?? numberText(value)));
  } else if (typeof value === "string") {
    run.make(isPrintable(value) ? value.length : 10 * value.length);
    pieces.push(quoted(value));
  } else if (value instanceof Undefined) {
    pieces.push("Undefined");
  } else if (isList(value) || value instanceof Tuple) {
    const items = isList(value) ? value : value.items;
    pieces.push(isList(value) ? "[" : "(");
    for (const [i, item] of items.entries()) {
      if (i > 0) pieces.push(", ");
      represent(run, item, pieces, depth + 1);
    }
    pieces.push(isList(value) ? "]" : items.length === 1 ? ",)" : ")");
  } else if (isDict(value)) {
    pieces.push("{");
    let first = true;
    for (const [key, item] of value) {
      if (!first) pieces.push(", ");
      first = false;
      represent(run, key, pieces, depth + 1);
      pieces.push(": ");
      represent(run, item, pieces, depth + 1);
    }
    pieces.push("}");
  } else {
    throw new TemplateError(`a ${kind(value)} cannot be written`);
  }
}

/** A number as Python writes it. */
export function numberText(value: Value): string {
  if (!(value instanceof Float)) return String(value);
  const { number } = value;
  if (Object.is(number, -0)) return "-0.0";
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "nan" : number < 0 ? "-inf" : "inf";
  const [digits = "", exponent = ""] = number.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 16) {
    return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return Number.isInteger(number) ? `${number}.0` : String(number);
}

/** The order of two texts by their characters, whatever units UTF-16 makes of them. */
export function compareTexts(left: string, right: string): number {
  if (left === right) return 0;
  const most = Math.min(left.length, right.length);
  let at = 0;
  while (at < most && left.charCodeAt(at) === right.charCodeAt(at)) at += 1;
  if (at === most) return left.length - right.length;
  return rank(left.charCodeAt(at)) - rank(right.charCodeAt(at));
}

/** Halves of characters beyond 16 bits come after all others. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

export function deeper(run: Run, depth: number): void {
  run.spend(1);
  if (depth > MAX_NESTED) {
    throw new TemplateLimitError(`it nests lists and dicts more than ${MAX_NESTED} deep`);
  }
}

/** What going through a value gives. */
export function itemsOf(run: Run, value: Value): readonly Value[] {
  if (isList(value)) return value;
  if (value instanceof Stream) return value.take();
  if (value instanceof Undefined) return [];
  if (typeof value === "string") {
    run.items(value.length);
    return [...value];
  }
  if (value instanceof Tuple) {
    run.items(value.items.length);
    return value.items;
  }
  if (isDict(value)) {
    run.items(value.size);
    return [...value.keys()];
  }
  throw new TemplateError(`a ${kind(value)} has no items`);
}

export function sizeOf(value: Value): number {
  if (typeof value === "string") return charactersOf(value);
  if (value instanceof Marked) return charactersOf(value.text);
  if (isList(value)) return value.length;
  if (value instanceof Tuple) return value.items.length;
  if (isDict(value)) return value.size;
  if (value instanceof Undefined) return 0;
  throw new TemplateError(`a ${kind(value)} has no length`);
}

/** Characters of a text, where UTF-16 has two units for some. */
export function charactersOf(text: string): number {
  let count = text.length;
  for (const _ of text.matchAll(/[\ud800-\udbff][\udc00-\udfff]/g)) count -= 1;
  return count;
}

export function finite(value: number): number {
  if (!Number.isFinite(value)) throw new TemplateError("a number is too large");
  return value;
}
