/**
 * What makes a plan safe to run: every check, each refusing with the value that fails it.
 *
 * For every value a symbol may take, each kernel argument lies inside its buffer. Sizes over load
 * symbols are tried at the corners of their bounds when a plan is read, and once more with the
 * chosen values when a program is loaded (`bufferSizes`).
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { bounds, symbols } from "./expr.ts";
import type { Plan, PlanBuffer, PlanSymbol } from "./plan.ts";
import { fail, type Ranges, rangesOf } from "./plan-errors.ts";
import { checkExtents, exactly } from "./plan-extents.ts";
import { checkBuffers, checkHost, checkKernels, checkSteps, checkSymbols } from "./plan-parts.ts";

/** Load symbols that sizes may use: their corners are tried one by one. */
const MAX_SIZE_SYMBOLS = 2;

/**
 * Run every check on one plan.
 *
 * @throws EdgewiseError with the code of the first that fails.
 */
export function checkPlan(plan: Plan): void {
  const ranges = rangesOf(plan, plan.symbols);
  const load = rangesOf(
    plan,
    plan.symbols.filter((symbol) => symbol.kind === "load"),
  );
  checkHost(plan);
  checkSymbols(plan);
  checkBuffers(plan, load);
  checkKernels(plan, ranges, load);
  checkSteps(plan, ranges);
  for (const corner of corners(plan, load)) checkExtents(plan, corner);
}

/**
 * Check values for the load symbols; return exactly those this plan declares.
 *
 * @throws EdgewiseError `plan.symbol` for a missing value, `plan.range` for one out of bounds.
 */
export function resolve(plan: Plan, load: ReadonlyMap<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  for (const symbol of plan.symbols) {
    if (symbol.kind !== "load") continue;
    const value = load.get(symbol.name);
    if (value === undefined) {
      throw fail(plan, "symbol", "", `it needs a value for the symbol ${shorten(symbol.name)}`);
    }
    if (!Number.isInteger(value) || value < symbol.min || value > symbol.max) {
      const range = `${symbol.min}..${symbol.max}`;
      throw fail(plan, "range", "", `${shorten(symbol.name)} = ${value} is outside ${range}`);
    }
    found.set(symbol.name, value);
  }
  return found;
}

/**
 * Bytes of every buffer of a program by name; scratch is as large as any plan needs.
 *
 * @throws EdgewiseError load symbols that are missing or out of range, or with which a launch would
 *   leave its buffers.
 */
export function bufferSizes(
  plans: Iterable<Plan>,
  load: ReadonlyMap<string, number>,
): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const plan of plans) {
    const values = resolve(plan, load);
    checkExtents(plan, values);
    const ranges = exactly(values);
    for (const buffer of plan.buffers) {
      const size = bounds(buffer.bytes, ranges)[0];
      sizes.set(buffer.name, Math.max(size, sizes.get(buffer.name) ?? 0));
    }
  }
  return sizes;
}

/**
 * Check that plans of one program agree on what they share by name: load symbols, and every buffer
 * but scratch, which may differ in size.
 *
 * @throws EdgewiseError `plan.shared` naming both plans.
 */
export function checkShared(plans: Iterable<Plan>): void {
  const buffers = new Map<string, readonly [Plan, PlanBuffer]>();
  const known = new Map<string, readonly [Plan, PlanSymbol]>();
  for (const plan of plans) {
    for (const symbol of plan.symbols) {
      if (symbol.kind !== "load") continue;
      const first = known.get(symbol.name) ?? ([plan, symbol] as const);
      known.set(symbol.name, first);
      agree("symbol", symbol.name, first, [plan, symbol]);
    }
    for (const buffer of plan.buffers) {
      const first = buffers.get(buffer.name) ?? ([plan, buffer] as const);
      buffers.set(buffer.name, first);
      if (first[1].role === "scratch" && buffer.role === "scratch") continue;
      agree("buffer", buffer.name, first, [plan, buffer]);
    }
  }
}

function agree<T>(
  what: string,
  name: string,
  [owner, first]: readonly [Plan, T],
  [plan, second]: readonly [Plan, T],
): void {
  if (JSON.stringify(first) === JSON.stringify(second)) return;
  throw new EdgewiseError(
    "plan.shared",
    `Plans ${shorten(owner.name)} and ${shorten(plan.name)} declare the ${what} ` +
      `${shorten(name)} differently.`,
  );
}

/** Every combination of smallest and largest values of the load symbols sizes use. */
function corners(plan: Plan, load: Ranges): Map<string, number>[] {
  const used = new Set<string>();
  for (const buffer of plan.buffers) {
    for (const expr of [buffer.bytes, ...buffer.shape]) symbols(expr, used);
  }
  const names = [...used].filter((name) => load.has(name)).sort();
  if (names.length > MAX_SIZE_SYMBOLS) {
    const message = `sizes use ${names.length} symbols, over ${MAX_SIZE_SYMBOLS}`;
    throw fail(plan, "symbol", "", message);
  }
  let found = [new Map<string, number>()];
  for (const name of names) {
    const ends = new Set(load.get(name) ?? []);
    found = found.flatMap((corner) => [...ends].map((end) => new Map([...corner, [name, end]])));
  }
  return found;
}
