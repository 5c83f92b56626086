/** What every check of a plan uses: its errors, and bounds that name where they fail. */

import { EdgewiseError, shorten } from "../errors.ts";
import { bounds, type Expr, type Range } from "./expr.ts";
import type { Plan, PlanSymbol } from "./plan.ts";

export type Ranges = ReadonlyMap<string, Range>;

/** The error `plan.<code>` about a place in a plan. */
export function fail(plan: Plan, code: string, where: string, message: string): EdgewiseError {
  const place = where ? `, ${where}` : "";
  return new EdgewiseError(`plan.${code}`, `Plan ${shorten(plan.name)}${place}: ${message}.`);
}

/** Refuse a name that appears twice. */
export function unique(plan: Plan, what: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) {
      throw fail(plan, "duplicate", "", `two ${what} are called ${shorten(name)}`);
    }
    seen.add(name);
  }
}

/** Inclusive bounds of these symbols. */
export function rangesOf(plan: Plan, some: readonly PlanSymbol[]): Map<string, Range> {
  unique(
    plan,
    "symbols",
    some.map((symbol) => symbol.name),
  );
  return new Map(some.map((symbol) => [symbol.name, [symbol.min, symbol.max]]));
}

/** `expr.bounds`, whose errors say where in the plan. */
export function inside(plan: Plan, where: string, expr: Expr, ranges: Ranges): Range {
  try {
    return bounds(expr, ranges);
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    throw fail(plan, error.code.replace(/^plan\./, ""), where, error.message.slice(0, -1));
  }
}

/** `inside` of a size, which is at least 1. */
export function positive(plan: Plan, where: string, expr: Expr, ranges: Ranges): Range {
  const range = inside(plan, where, expr, ranges);
  if (range[0] < 1) {
    const message = `${shorten(expr)} can be ${range[0]}, and a size is at least 1`;
    throw fail(plan, "size", where, message);
  }
  return range;
}
