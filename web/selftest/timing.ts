/** How long launches of kernels take, and how many bytes they move meanwhile. */
import type { LoadedProgram } from "../device/base.ts";
import type { Gpu } from "../device/gpu.ts";
import { timed, timeKernel } from "../device/timing.ts";
import { EdgewiseError } from "../errors.ts";
import { type Expr, evaluate } from "../format/expr.ts";
import type { Kernel, Plan } from "../format/plan.ts";

/** One launch of a kernel. */
export interface KernelTime {
  /** Mean or least nanoseconds; null where they were not measured. */
  readonly ns: number | null;
  /** Bytes that it moves by the plan; null where the plan does not say. */
  readonly bytes: number | null;
  /** Timestamps between the others of its plan, or many launches alone in a submission; why neither. */
  readonly by: "timestamps" | "submits" | { readonly not: string };
}

/** What was run last, which is timed: rows, and how many tokens a sequence has in KV. */
export interface Timeable {
  readonly step: Readonly<Record<"n" | "b" | "r" | "t", number>>;
  readonly kv: number;
}

/** Browsers round timestamps, some to 0.1 ms: only a mean over many launches says anything. */
const ROUNDS = 20;
/** Milliseconds after which a plan was run often enough, however few times that was. */
const ENOUGH_MS = 1000;
const LEAST_ROUNDS = 3;

/**
 * How long each kernel takes: by timestamps where the adapter has them, else by launching it again and again.
 * Rejects only where the device is lost or the signal aborted. What the plans compute is of no use afterwards.
 *
 * @param shaders WGSL by path, as the program names it.
 */
export async function timeKernels(
  gpu: Gpu,
  program: LoadedProgram,
  shaders: ReadonlyMap<string, string>,
  last: Timeable,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, KernelTime>> {
  const times = new Map<string, KernelTime>();
  for (const plan of program.plans.values()) {
    signal.throwIfAborted();
    const stamped = await byTimestamps(program, plan.name);
    for (const [name, kernel] of plan.kernels) {
      if (times.get(name)?.ns) continue; // of another plan
      const ns = stamped?.get(name);
      times.set(
        name,
        stamped
          ? { ns: ns || null, bytes: movedBy(kernel, valuesOf(plan, last)), by: stampedBy(ns) }
          : await bySubmits(gpu, program, plan, name, shaders),
      );
    }
  }
  return times;
}

function stampedBy(ns: number | undefined): KernelTime["by"] {
  return ns ? "timestamps" : { not: "it is shorter than what the browser's clock tells" };
}

/** Mean nanoseconds of one launch of each kernel of a plan; null where the adapter has no timestamps. */
async function byTimestamps(
  program: LoadedProgram,
  plan: string,
): Promise<ReadonlyMap<string, number> | null> {
  const spent = new Map<string, { ns: number; launches: number }>();
  const began = performance.now();
  for (let round = 0; round < ROUNDS; round++) {
    if (round >= LEAST_ROUNDS && performance.now() - began > ENOUGH_MS) break;
    const steps = await program.time(plan);
    if (!steps) return null;
    for (const { kernel, ns } of steps) {
      const sum = spent.get(kernel) ?? { ns: 0, launches: 0 };
      spent.set(kernel, { ns: sum.ns + Math.max(ns, 0), launches: sum.launches + 1 });
    }
  }
  return new Map([...spent].map(([kernel, { ns, launches }]) => [kernel, ns / launches]));
}

/** A row of a sequence that has seen nothing, launched many times in one submission. */
async function bySubmits(
  gpu: Gpu,
  { program }: LoadedProgram,
  plan: Plan,
  name: string,
  shaders: ReadonlyMap<string, string>,
): Promise<KernelTime> {
  const kernel = plan.kernels.get(name);
  const step = plan.steps.find((one) => one.kernel === name);
  const code = shaders.get(program.shaders.get(name) ?? "");
  if (!kernel || !step || code === undefined) {
    return { ns: null, bytes: null, by: { not: "it has no shader" } };
  }
  const bytes = movedBy(kernel, valuesOf(plan, { step: { n: 1, b: 1, r: 1, t: 1 }, kv: 0 }));
  try {
    const ms = await timeKernel(gpu, timed(plan, step, kernel, code));
    return { ns: 1e6 * ms, bytes, by: "submits" };
  } catch (cause) {
    const ended = gpu.ended();
    if (ended) throw ended;
    const { message } = EdgewiseError.from(cause, "device.kernel", "It cannot be timed");
    return { ns: null, bytes, by: { not: message } };
  }
}

function valuesOf(plan: Plan, { step, kv }: Timeable): ReadonlyMap<string, number> {
  const load = plan.symbols.filter(({ kind }) => kind === "load");
  return new Map([
    ...load.map(({ name, min }): [string, number] => [name, min]),
    ...Object.entries(step),
    ["kv", kv],
  ]);
}

function movedBy(kernel: Kernel, values: ReadonlyMap<string, number>): number | null {
  const moved = (bytes: Expr) => evaluate(bytes, values);
  try {
    return kernel.cost ? moved(kernel.cost.bytes) : null;
  } catch {
    return null; // it asks for a symbol that no step has
  }
}
