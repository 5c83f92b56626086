/**
 * Small integer expressions over symbols: how plans write sizes, grids and costs.
 *
 * An expression is an integer, the name of a symbol, or `[op, a, b]`. Every intermediate result stays
 * below 2^53 in magnitude, so that Python and JavaScript agree on it.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { LIMIT, NAME } from "./reading.ts";

export type Operation = "add" | "sub" | "mul" | "floordiv" | "ceildiv" | "min" | "max";
export type Expr = number | string | readonly [Operation, Expr, Expr];
/** Inclusive lower and upper bound. */
export type Range = readonly [number, number];

const MAX_DEPTH = 16;
const MAX_NODES = 256;

/** None gives -0, which would print as something Python does not know. */
const OPERATIONS: Readonly<Record<Operation, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b + 0,
  floordiv,
  ceildiv: (a, b) => 0 - floordiv(0 - a, b),
  min: Math.min,
  max: Math.max,
};

function isOperation(value: unknown): value is Operation {
  return typeof value === "string" && Object.hasOwn(OPERATIONS, value);
}

/** Exact below 2^53, unlike Math.floor(a / b), whose quotient is rounded. */
function floordiv(a: number, b: number): number {
  const rest = a % b;
  const quotient = (a - rest) / b;
  return rest < 0 ? quotient - 1 : quotient;
}

function fail(message: string): EdgewiseError {
  return new EdgewiseError("plan.expr", `${message}.`);
}

function unset(symbol: string): EdgewiseError {
  return new EdgewiseError("plan.symbol", `The symbol ${shorten(symbol)} has no value.`);
}

/**
 * Read an expression from its JSON form, checking its shape and size.
 *
 * @throws EdgewiseError `plan.expr` for anything that is not an expression, deeper than 16 levels,
 *   longer than 256 nodes, or holding a constant of 2^53 or more.
 */
export function parse(value: unknown): Expr {
  const budget = { nodes: MAX_NODES };
  return parseNode(value, MAX_DEPTH, budget);
}

function parseNode(value: unknown, depth: number, budget: { nodes: number }): Expr {
  budget.nodes -= 1;
  if (budget.nodes < 0 || depth < 0) {
    throw fail(`An expression is larger than ${MAX_NODES} nodes or ${MAX_DEPTH} levels`);
  }
  if (typeof value === "number") {
    if (!Number.isInteger(value)) throw fail(`Not an expression: ${shorten(value)}`);
    if (Math.abs(value) >= LIMIT) throw fail(`The constant ${value} is not below 2^53`);
    return value;
  }
  if (typeof value === "string") {
    if (!NAME.test(value)) throw fail(`${shorten(value)} is not the name of a symbol`);
    return value;
  }
  if (Array.isArray(value) && value.length === 3 && typeof value[0] === "string") {
    const [operation, a, b]: readonly unknown[] = value;
    if (!isOperation(operation)) throw fail(`Unknown operation ${shorten(operation)}`);
    const left = parseNode(a, depth - 1, budget);
    return [operation, left, parseNode(b, depth - 1, budget)];
  }
  throw fail(`Not an expression: ${shorten(value)}`);
}

/** Names of the symbols an expression uses. */
export function symbols(expr: Expr, found = new Set<string>()): Set<string> {
  if (typeof expr === "string") found.add(expr);
  else if (typeof expr !== "number") {
    symbols(expr[1], found);
    symbols(expr[2], found);
  }
  return found;
}

/**
 * The value at given symbol values.
 *
 * @throws EdgewiseError `plan.symbol` for a symbol without a value, `plan.expr` for a divisor below
 *   1 or a result of 2^53 or more.
 */
export function evaluate(expr: Expr, values: ReadonlyMap<string, number>): number {
  if (typeof expr === "number") return expr;
  if (typeof expr === "string") {
    const value = values.get(expr);
    if (value === undefined) throw unset(expr);
    return value;
  }
  return apply(expr, evaluate(expr[1], values), evaluate(expr[2], values));
}

function apply(expr: readonly [Operation, Expr, Expr], a: number, b: number): number {
  const [operation] = expr;
  if (isDivision(operation) && b < 1) throw fail(`${shorten(expr)} divides by ${b}`);
  const result = OPERATIONS[operation](a, b);
  if (Math.abs(result) >= LIMIT) {
    throw fail(`${shorten(expr)} reaches ${result}, which is not below 2^53`);
  }
  return result;
}

function isDivision(operation: Operation): boolean {
  return operation === "floordiv" || operation === "ceildiv";
}

/**
 * Inclusive bounds of an expression while each symbol stays in its range.
 *
 * Interval arithmetic: never too narrow, exact where no symbol occurs twice. Every operation is
 * monotone in each argument while the other is fixed, so its extremes lie at the corners.
 *
 * @throws EdgewiseError `plan.symbol` for a symbol without a range, `plan.expr` where a divisor may
 *   be below 1 or any intermediate result may reach 2^53.
 */
export function bounds(expr: Expr, ranges: ReadonlyMap<string, Range>): Range {
  if (typeof expr === "number") return [expr, expr];
  if (typeof expr === "string") {
    const range = ranges.get(expr);
    if (range === undefined) {
      throw new EdgewiseError("plan.symbol", `Unknown symbol ${shorten(expr)}.`);
    }
    return range;
  }
  const [operation, a, b] = expr;
  const left = bounds(a, ranges);
  const right = bounds(b, ranges);
  if (isDivision(operation) && right[0] < 1) {
    throw fail(`${shorten(expr)} may divide by ${right[0]}`);
  }
  const corners = left.flatMap((x) => right.map((y) => OPERATIONS[operation](x, y)));
  const low = Math.min(...corners);
  const high = Math.max(...corners);
  if (Math.max(Math.abs(low), Math.abs(high)) >= LIMIT) {
    throw fail(`${shorten(expr)} may reach 2^53`);
  }
  return [low, high];
}

/**
 * An expression over `names` as a function of their values in that order, made once.
 *
 * @throws EdgewiseError `plan.symbol` for a symbol that is not in `names`; the function throws what
 *   `evaluate` does.
 */
export function compile(
  expr: Expr,
  names: readonly string[],
): (values: ArrayLike<number>) => number {
  if (typeof expr === "number") return () => expr;
  if (typeof expr === "string") {
    const index = names.indexOf(expr);
    if (index < 0) throw new EdgewiseError("plan.symbol", `Unknown symbol ${shorten(expr)}.`);
    return (values) => {
      const value = values[index];
      if (value === undefined) throw unset(expr);
      return value;
    };
  }
  const left = compile(expr[1], names);
  const right = compile(expr[2], names);
  return (values) => apply(expr, left(values), right(values));
}
