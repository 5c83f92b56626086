/**
 * What makes a plan safe to run: every check, each refusing with the value that fails it.
 *
 * For every value a symbol may take, each kernel argument lies inside its buffer. Sizes over load
 * symbols are tried at the corners of their bounds when a plan is read, and once more with the
 * chosen values when a program is loaded (`checkExtents`).
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { bounds, type Expr, type Range, symbols } from "./expr.ts";
import {
  DTYPES,
  type Kernel,
  type KernelArg,
  type Plan,
  type PlanBuffer,
  type PlanSymbol,
  type Step,
} from "./plan.ts";
import { LIMIT } from "./reading.ts";

type Ranges = ReadonlyMap<string, Range>;

const KV_RANGE: Range = [0, 2 ** 22];
/** Bytes that divide every binding's offset: what each graphics interface accepts. */
const ALIGNMENT = 256;
/** WebGPU's default limits. */
const MAX_SHADER_BUFFERS = 8;
const MAX_WORKGROUPS = 65535;
/** Load symbols that sizes may use: their corners are tried one by one. */
const MAX_SIZE_SYMBOLS = 4;

/** Run every check on one plan. @throws EdgewiseError with the code of the first that fails. */
export function checkPlan(plan: Plan): void {
  const ranges = rangesOf(plan, plan.symbols);
  const load = rangesOf(
    plan,
    plan.symbols.filter((symbol) => symbol.kind === "load"),
  );
  checkSymbols(plan);
  checkBuffers(plan, load);
  checkKernels(plan, ranges);
  checkSteps(plan, ranges);
  checkHost(plan, load);
  for (const corner of corners(plan, load)) checkExtents(plan, corner);
}

/** Check values for the load symbols; return exactly those this plan declares. */
export function resolve(plan: Plan, load: ReadonlyMap<string, number>): Map<string, number> {
  const found = new Map<string, number>();
  for (const symbol of plan.symbols) {
    if (symbol.kind !== "load") continue;
    const value = load.get(symbol.name);
    if (value === undefined) {
      throw fail(plan, "symbol", "", `it needs a value for the symbol ${shorten(symbol.name)}`);
    }
    if (!(symbol.min <= value && value <= symbol.max)) {
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
 * Check that shapes fit their buffers and arguments their bindings at these load symbols.
 *
 * @throws EdgewiseError `plan.bytes`, `plan.extent` or `plan.alias`.
 */
export function checkExtents(plan: Plan, load: ReadonlyMap<string, number>): void {
  const ranges = new Map([...rangesOf(plan, plan.symbols), ...exactly(load)]);
  const sizes = new Map(
    plan.buffers.map((buffer) => [buffer.name, bufferSize(plan, buffer, ranges)]),
  );
  const extents = new Map(
    [...plan.kernels].map(([name, kernel]) => [
      name,
      kernel.args.map((arg) => bounds(arg.bytes, ranges)[1]),
    ]),
  );
  plan.steps.forEach((step, index) => {
    stepExtents(plan, index, step, sizes, extents.get(step.kernel) ?? []);
  });
  plan.host?.arguments.forEach((argument, index) => {
    const where = `host, argument ${index}`;
    let end = DTYPES.get(argument.dtype) ?? 0;
    for (const dim of argument.shape) end *= inside(plan, where, dim, ranges)[1];
    const size = sizes.get(argument.buffer) ?? 0;
    if (end + argument.offset > size) {
      const message = `byte ${end + argument.offset} is past ${shorten(argument.buffer)}, of ${size}`;
      throw fail(plan, "extent", where, message);
    }
  });
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

function rangesOf(plan: Plan, some: readonly PlanSymbol[]): Map<string, Range> {
  unique(
    plan,
    "symbols",
    some.map((symbol) => symbol.name),
  );
  return new Map(some.map((symbol) => [symbol.name, [symbol.min, symbol.max]]));
}

function exactly(values: ReadonlyMap<string, number>): Map<string, Range> {
  return new Map([...values].map(([name, value]) => [name, [value, value]]));
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

function fail(plan: Plan, code: string, where: string, message: string): EdgewiseError {
  const place = where ? `, ${where}` : "";
  return new EdgewiseError(`plan.${code}`, `Plan ${shorten(plan.name)}${place}: ${message}.`);
}

function without(some: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...some].filter((name) => !others.has(name));
}

function unique(plan: Plan, what: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) {
      throw fail(plan, "duplicate", "", `two ${what} are called ${shorten(name)}`);
    }
    seen.add(name);
  }
}

function inside(plan: Plan, where: string, expr: Expr, ranges: Ranges): Range {
  try {
    return bounds(expr, ranges);
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    throw fail(plan, error.code.replace(/^plan\./, ""), where, error.message.slice(0, -1));
  }
}

function positive(plan: Plan, where: string, expr: Expr, ranges: Ranges): Range {
  const range = inside(plan, where, expr, ranges);
  if (range[0] < 1) {
    const message = `${shorten(expr)} can be ${range[0]}, and a size is at least 1`;
    throw fail(plan, "size", where, message);
  }
  return range;
}

function checkSymbols(plan: Plan): void {
  for (const { name, min, max } of plan.symbols) {
    if (!(min >= 0 && min <= max && max < LIMIT)) {
      throw fail(plan, "bounds", `symbol ${shorten(name)}`, `bounds ${min}..${max} are empty`);
    }
  }
}

function checkBuffers(plan: Plan, load: Ranges): void {
  unique(
    plan,
    "buffers",
    plan.buffers.map((buffer) => buffer.name),
  );
  for (const buffer of plan.buffers) {
    const where = `buffer ${shorten(buffer.name)}`;
    for (const dim of buffer.shape) positive(plan, where, dim, load);
    positive(plan, where, buffer.bytes, load);
    if (buffer.role === "scratch") checkScratch(plan, where, buffer);
    if (buffer.role === "param" && symbols(buffer.bytes).size > 0) {
      throw fail(plan, "param", where, "the size of a parameter cannot vary");
    }
  }
}

function checkScratch(plan: Plan, where: string, { dtype, bytes, shape }: PlanBuffer): void {
  if (dtype !== "uint8" || typeof bytes !== "number") {
    throw fail(plan, "scratch", where, "scratch is uint8 and of a constant size");
  }
  if (shape.length !== 1 || shape[0] !== bytes) {
    throw fail(plan, "scratch", where, `scratch has the shape [${bytes}]`);
  }
}

function bufferSize(plan: Plan, buffer: PlanBuffer, ranges: Ranges): number {
  const where = `buffer ${shorten(buffer.name)}`;
  const size = inside(plan, where, buffer.bytes, ranges)[0];
  let needed = DTYPES.get(buffer.dtype) ?? 0;
  for (const dim of buffer.shape) needed *= inside(plan, where, dim, ranges)[1];
  if (needed > size) {
    throw fail(plan, "bytes", where, `its shape takes ${needed} bytes, and 'bytes' is ${size}`);
  }
  return size;
}

function checkKernels(plan: Plan, ranges: Ranges): void {
  const costRanges = new Map<string, Range>([["kv", KV_RANGE], ...ranges]);
  for (const [name, kernel] of plan.kernels) {
    const where = `kernel ${shorten(name)}`;
    unique(
      plan,
      `arguments of ${shorten(name)}`,
      kernel.args.map((arg) => arg.name),
    );
    for (const arg of kernel.args) {
      const place = `${where}, argument ${shorten(arg.name)}`;
      for (const dim of arg.shape) positive(plan, place, dim, ranges);
      positive(plan, place, arg.bytes, ranges);
    }
    for (const cost of kernel.cost ? [kernel.cost.bytes, kernel.cost.flops] : []) {
      if (inside(plan, `${where}, cost`, cost, costRanges)[0] < 0) {
        throw fail(plan, "cost", where, "a cost can be negative");
      }
    }
  }
}

function checkSteps(plan: Plan, ranges: Ranges): void {
  const buffers = new Map(plan.buffers.map((buffer) => [buffer.name, buffer]));
  plan.steps.forEach((step, index) => {
    const where = `step ${index} (${step.kernel})`;
    const kernel = plan.kernels.get(step.kernel);
    if (kernel === undefined) {
      throw fail(plan, "unknown_name", where, `no kernel is called ${shorten(step.kernel)}`);
    }
    if (step.bindings.length !== kernel.args.length) {
      const counts = `${step.bindings.length} bindings for ${kernel.args.length} arguments`;
      throw fail(plan, "args", where, counts);
    }
    kernel.args.forEach((arg, i) => {
      checkBinding(plan, where, arg, step, i, buffers);
    });
    const grid = step.grid.map((expr) => positive(plan, `${where}, grid`, expr, ranges)[1]);
    if (plan.target === "webgpu") checkLimits(plan, where, kernel, grid);
    checkTouched(plan, where, step, kernel);
  });
}

function checkLimits(plan: Plan, where: string, kernel: Kernel, grid: readonly number[]): void {
  if (kernel.args.length > MAX_SHADER_BUFFERS) {
    const message = `${kernel.args.length} buffers, and a shader has ${MAX_SHADER_BUFFERS}`;
    throw fail(plan, "limits", where, message);
  }
  if (Math.max(...grid) > MAX_WORKGROUPS || (grid[2] ?? 1) > 1) {
    const message = `up to ${shorten(grid)} workgroups, over ${MAX_WORKGROUPS} in x or y or 1 in z`;
    throw fail(plan, "limits", where, message);
  }
}

function checkBinding(
  plan: Plan,
  step: string,
  arg: KernelArg,
  { bindings }: Step,
  index: number,
  buffers: ReadonlyMap<string, PlanBuffer>,
): void {
  const where = `${step}, argument ${shorten(arg.name)}`;
  const { buffer: name, offset } = bindings[index] ?? { buffer: "", offset: 0 };
  const buffer = buffers.get(name);
  if (buffer === undefined) {
    throw fail(plan, "unknown_name", where, `no buffer is called ${shorten(name)}`);
  }
  if (offset < 0 || offset % ALIGNMENT) {
    const message = `offset ${offset} in ${shorten(name)} is no multiple of ${ALIGNMENT}`;
    throw fail(plan, "offset", where, message);
  }
  if (buffer.role !== "scratch" && arg.dtype !== buffer.dtype) {
    const message = `${shorten(name)} is ${buffer.dtype}, the kernel takes ${arg.dtype}`;
    throw fail(plan, "args", where, message);
  }
  if (buffer.role === "param" && arg.access !== "read") {
    throw fail(plan, "access", where, `the kernel writes the parameter ${shorten(name)}`);
  }
}

function checkTouched(plan: Plan, where: string, step: Step, kernel: Kernel): void {
  const touched = (except: string) =>
    new Set(step.bindings.filter((_, i) => kernel.args[i]?.access !== except).map((b) => b.buffer));
  for (const [what, declared, expected] of [
    ["reads", step.reads, touched("write")],
    ["writes", step.writes, touched("read")],
  ] as const) {
    const named = new Set(declared);
    const difference = [...without(named, expected), ...without(expected, named)].sort();
    if (difference.length > 0 || named.size !== declared.length) {
      const shown = shorten((difference.length > 0 ? difference : [...declared]).slice(0, 4));
      throw fail(
        plan,
        "access",
        where,
        `'${what}' disagrees with the kernel's access about ${shown}`,
      );
    }
  }
}

function stepExtents(
  plan: Plan,
  index: number,
  step: Step,
  sizes: ReadonlyMap<string, number>,
  extents: readonly number[],
): void {
  const where = `step ${index} (${step.kernel})`;
  const args = plan.kernels.get(step.kernel)?.args ?? [];
  const taken: { buffer: string; start: number; end: number; arg: KernelArg }[] = [];
  args.forEach((arg, i) => {
    const { buffer, offset: start } = step.bindings[i] ?? { buffer: "", offset: 0 };
    const end = start + (extents[i] ?? 0);
    const size = sizes.get(buffer) ?? 0;
    if (end > size) {
      const message = `bytes ${start}..${end} reach past ${shorten(buffer)}, which has ${size}`;
      throw fail(plan, "extent", `${where}, argument ${shorten(arg.name)}`, message);
    }
    for (const other of taken) {
      const overlaps = other.buffer === buffer && start < other.end && other.start < end;
      if (overlaps && (arg.access !== "read" || other.arg.access !== "read")) {
        const both = `${shorten(arg.name)} and ${shorten(other.arg.name)}`;
        const message = `${both} overlap in ${shorten(buffer)}, and one of them is written`;
        throw fail(plan, "alias", where, message);
      }
    }
    taken.push({ buffer, start, end, arg });
  });
}

function checkHost(plan: Plan, load: Ranges): void {
  const names = new Set(plan.buffers.map((buffer) => buffer.name));
  if ((plan.host !== null) !== (plan.target === "cpu")) {
    const message = `target ${shorten(plan.target)} and the host function disagree`;
    throw fail(plan, "host", "", message);
  }
  if (plan.host) {
    const buffers = new Map(plan.buffers.map((buffer) => [buffer.name, buffer]));
    plan.host.arguments.forEach((argument, index) => {
      const where = `host, argument ${index}`;
      const buffer = buffers.get(argument.buffer);
      if (buffer === undefined) {
        const message = `no buffer is called ${shorten(argument.buffer)}`;
        throw fail(plan, "unknown_name", where, message);
      }
      if (argument.offset < 0 || argument.offset % ALIGNMENT) {
        const message = `offset ${argument.offset} is no multiple of ${ALIGNMENT}`;
        throw fail(plan, "offset", where, message);
      }
      if (buffer.role !== "scratch" && argument.dtype !== buffer.dtype) {
        throw fail(plan, "args", where, `${shorten(buffer.name)} is ${buffer.dtype}`);
      }
      for (const dim of argument.shape) positive(plan, where, dim, load);
    });
    const listed = new Set(plan.host.arguments.map((argument) => argument.buffer));
    const bound = new Set(plan.steps.flatMap((step) => step.bindings.map((b) => b.buffer)));
    for (const name of without(bound, listed).sort()) {
      const message = `the buffer ${shorten(name)} of a step is not passed`;
      throw fail(plan, "host", "host", message);
    }
  }
  if (plan.loop && !names.has(plan.loop.stopBuffer)) {
    const message = `no buffer is called ${shorten(plan.loop.stopBuffer)}`;
    throw fail(plan, "unknown_name", "loop", message);
  }
}
