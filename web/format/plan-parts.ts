/** The checks of a plan's parts that need no sizes: names, dtypes, access, bounds, limits. */

import { shorten } from "../errors.ts";
import { type Range, symbols } from "./expr.ts";
import type { Kernel, KernelArg, Plan, PlanBuffer, Step } from "./plan.ts";
import { fail, inside, positive, type Ranges, unique } from "./plan-errors.ts";
import { LIMIT } from "./reading.ts";

const KV_RANGE: Range = [0, 2 ** 22];
/** Bytes that divide every binding's offset: what each graphics interface accepts. */
const ALIGNMENT = 256;
/** WebGPU's default limits. */
const MAX_SHADER_BUFFERS = 8;
const MAX_WORKGROUPS = 65535;

function without(some: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...some].filter((name) => !others.has(name));
}

export function checkSymbols(plan: Plan): void {
  for (const { name, min, max } of plan.symbols) {
    if (!(min >= 0 && min <= max && max < LIMIT)) {
      throw fail(plan, "bounds", `symbol ${shorten(name)}`, `bounds ${min}..${max} are empty`);
    }
  }
}

export function checkBuffers(plan: Plan, load: Ranges): void {
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

export function checkKernels(plan: Plan, all: Ranges, load: Ranges): void {
  const costRanges = new Map<string, Range>([["kv", KV_RANGE], ...all]);
  // A host function is handed its tensors once: a step cannot change their shapes.
  const ranges = plan.host === null ? all : load;
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

export function checkSteps(plan: Plan, ranges: Ranges): void {
  const buffers = bufferTable(plan);
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
  if (offset % ALIGNMENT) {
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

/** A plan has a host function where its target launches plans by one: the CPU. */
export function checkHost(plan: Plan): void {
  if ((plan.host !== null) === (plan.target === "cpu")) return;
  const message = `target ${shorten(plan.target)} and the host function disagree`;
  throw fail(plan, "host", "", message);
}

function bufferTable(plan: Plan): Map<string, PlanBuffer> {
  return new Map(plan.buffers.map((buffer) => [buffer.name, buffer]));
}
