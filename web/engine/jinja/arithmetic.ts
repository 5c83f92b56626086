/** Operators and formats: as in Python, within what both languages count exactly. */

import { counted } from "./compare.ts";
import { type Run, TemplateError } from "./run.ts";
import {
  type Arguments,
  Float,
  finite,
  isDict,
  isList,
  kind,
  Marked,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from "./values.ts";

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "'": "&#39;",
  '"': "&#34;",
};

export function escaped(run: Run, text: string): string {
  run.make(5 * text.length);
  return text.replace(/[&<>'"]/g, (mark) => ESCAPES[mark] ?? mark);
}

type Operator = (run: Run, left: Value, right: Value) => Value;

export function add(run: Run, left: Value, right: Value): Value {
  if (typeof left === "string" && typeof right === "string") {
    run.make(left.length + right.length);
    return left + right;
  }
  if (isList(left) && isList(right)) {
    run.items(left.length + right.length);
    return [...left, ...right];
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    run.items(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  if (isText(left) && isText(right)) {
    const texts = [left, right].map((side) =>
      side instanceof Marked ? side.text : escaped(run, side),
    );
    const text = texts.join("");
    run.make(text.length);
    return new Marked(text);
  }
  return calculated("+", left, right, (a, b) => a + b);
}

function isText(value: Value): value is string | Marked {
  return typeof value === "string" || value instanceof Marked;
}

function multiply(run: Run, left: Value, right: Value): Value {
  for (const [items, times] of [
    [left, right],
    [right, left],
  ] as const) {
    if (typeof times !== "number" && typeof times !== "boolean") continue;
    const count = Math.max(0, Number(times));
    if (typeof items === "string") {
      run.make(items.length * count);
      return items.length > 0 ? items.repeat(count) : "";
    }
    const list = isList(items) ? items : items instanceof Tuple ? items.items : null;
    if (list) {
      run.items(list.length * count);
      const repeated = list.length > 0 ? Array.from({ length: count }, () => list).flat(1) : [];
      return items instanceof Tuple ? new Tuple(repeated) : repeated;
    }
  }
  return calculated("*", left, right, (a, b) => a * b);
}

function divide(_: Run, left: Value, right: Value): Value {
  const quotient = calculated("/", left, right, (a, b) => {
    if (b === 0) throw new TemplateError("it divides by zero");
    return a / b;
  });
  return quotient instanceof Float ? quotient : new Float(Number(quotient));
}

function remainder(run: Run, left: Value, right: Value): Value {
  if (typeof left === "string") {
    return percent(run, left, right instanceof Tuple ? right.items : [right]);
  }
  return calculated("%", left, right, modulo);
}

/** The remainder, with the sign of the divisor. */
function modulo(a: number, b: number): number {
  if (b === 0) throw new TemplateError("it divides by zero");
  const rest = a % b;
  if (rest === 0) return b < 0 ? -0 : 0;
  return rest < 0 !== b < 0 ? rest + b : rest;
}

function quotient(a: number, b: number): number {
  if (b === 0) throw new TemplateError("it divides by zero");
  const rest = a % b;
  const near = (a - rest) / b - (rest !== 0 && rest < 0 !== b < 0 ? 1 : 0);
  if (near === 0) return Object.is(a / b, -0) || a / b < 0 ? -0 : 0;
  const below = Math.floor(near);
  return near - below > 0.5 ? below + 1 : below;
}

function power(_: Run, left: Value, right: Value): Value {
  if (left instanceof Float || right instanceof Float) throw unraised();
  const [base, exponent] = [counted(left), counted(right)];
  if (base === null || exponent === null || exponent < 0) throw unraised();
  if (Math.abs(base) > 1 && exponent > 53) throw new TemplateError("a number is too large");
  // Of 0, 1 and -1 the exponent may be large.
  const times = Math.abs(base) > 1 || exponent === 0 ? exponent : 2 - (exponent % 2);
  let result = 1;
  for (let i = 0; i < times; i++) result = within(result * base);
  return result;
}

function unraised(): TemplateError {
  return new TemplateError("** takes whole numbers, and an exponent that is not negative");
}

export const OPERATORS: Readonly<Record<string, Operator>> = {
  "+": add,
  "-": (_, left, right) => calculated("-", left, right, (a, b) => a - b),
  "*": multiply,
  "/": divide,
  "//": (_, left, right) => calculated("//", left, right, quotient),
  "%": remainder,
  "**": power,
};

export function negative(value: Value, sign: number): Value {
  const known = counted(value);
  if (known === null) throw unsuited(sign < 0 ? "-" : "+", value);
  return value instanceof Float ? new Float(known * sign) : known * sign + 0;
}

/** A whole number that both languages count exactly. */
export function within(value: number): number {
  if (!Number.isSafeInteger(value)) throw new TemplateError("a number is too large");
  return value + 0;
}

function calculated(
  operator: string,
  left: Value,
  right: Value,
  calculate: (a: number, b: number) => number,
): Value {
  const [a, b] = [counted(left), counted(right)];
  if (a === null || b === null) throw unsuited(operator, left, right);
  const result = calculate(a, b);
  if (left instanceof Float || right instanceof Float) return new Float(finite(result));
  return operator === "/" ? new Float(finite(result)) : within(result);
}

function unsuited(operator: string, ...operands: Value[]): TemplateError {
  const unknown = operands.find((value) => value instanceof Undefined);
  const kinds = operands.map(kind).join(" and ");
  return new TemplateError(unknown?.said || `${operator} does not take ${kinds}`);
}

/** What `form % values` gives in Python, for %s, %d and %%. */
export function percent(run: Run, form: string, values: readonly Value[]): string {
  run.look(form.length);
  let used = 0;
  const text = form.replace(/%(.?)/gsu, (place, letter: string) => {
    if (letter === "%") return "%";
    const value = values[used];
    if ((letter !== "s" && letter !== "d") || value === undefined) {
      throw new TemplateError(`the format ${place} is not supported, or has no value`);
    }
    used += 1;
    if (letter === "s") return run.made(textOf(run, value));
    const count = counted(value);
    if (count === null) throw new TemplateError(`%d takes a number, not ${kind(value)}`);
    return run.made(bigText(Math.trunc(count)));
  });
  const [only] = values;
  if (used < values.length && !(values.length === 1 && only !== undefined && isDict(only))) {
    throw new TemplateError("a format has more values than places");
  }
  return run.made(text);
}

/** All the digits of a whole number. */
export function bigText(value: number): string {
  return BigInt(value).toString();
}

/** What `form.format(...)` gives in Python, for places that are empty, a number or a name. */
export function braced(run: Run, form: string, { placed, named }: Arguments): string {
  run.look(form.length);
  const numbered = new Set<boolean>();
  let next = 0;
  const text = form.replace(
    /\{\{|\}\}|\{([A-Za-z_]\w*|[0-9]{1,4})?\}|[{}]/g,
    (mark, name: string | undefined) => {
      if (mark === "{{" || mark === "}}") return mark.charAt(0);
      if (mark === "{" || mark === "}") {
        throw new TemplateError("a format has a brace or a place that is not supported");
      }
      const byName = name !== undefined && !/^[0-9]/.test(name);
      if (!byName) numbered.add(name !== undefined);
      const value = byName ? named.get(name) : placed[name === undefined ? next++ : Number(name)];
      if (value === undefined || numbered.size > 1) {
        throw new TemplateError(`a format has no value for ${mark}`);
      }
      return run.made(textOf(run, value));
    },
  );
  return run.made(text);
}

export function joined(run: Run, texts: readonly string[], between = ""): string {
  const characters = texts.reduce((sum, text) => sum + text.length, 0);
  run.make(characters + between.length * Math.max(0, texts.length - 1));
  return texts.join(between);
}
