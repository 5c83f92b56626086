/** Which of the programs that fit an adapter is the fastest on it. */

import type { Gpu } from "../device/gpu.ts";
import type { Timed } from "../device/timing.ts";
import { type BundleManifest, type Program, storedAs } from "../format/manifest.ts";
import type { Plan } from "../format/plan.ts";
import { planFor, rounds } from "../format/programs.ts";
import type { Store } from "../store/store.ts";
import { hotLaunch } from "./hot-kernel.ts";

/**
 * A program later in the compiler's order is chosen where its hot kernel is this much faster. The
 * order knows more than one kernel: memory, prefill, arithmetic.
 */
const MARGIN = 1.5;

/** Rows of a prompt that programs are compared at: a few tiles of their kernels. */
const ROWS = 128;

/** Reads what a candidate needs to be timed: a plan, and a shader of it. */
export interface Sources {
  plan(program: Program, name: string): Promise<Plan>;
  shader(program: Program, kernel: string): Promise<string>;
}

/** Milliseconds of a kernel. */
export type Clock = (kernel: Timed) => Promise<number>;

/**
 * The fastest of `programs`, found by running the kernel in which decode spends most of its bytes.
 *
 * Programs share kernels, so two to four are timed. Those that round the activations of prompts
 * decode by the kernels of another: where that one is chosen, the kernels in which a prompt spends
 * most of its operations are compared. The choice is remembered for this adapter, these shapes and
 * this compiler.
 *
 * An adapter in software needs no clock, which would compile for a second: what it waits for is barriers, and the program
 * without any, whose decode agrees with its prefill for that reason, is some four times faster there.
 *
 * @param programs the preferred first, those that round last; at least one does not.
 */
export async function fastest(
  gpu: Gpu,
  manifest: BundleManifest,
  programs: readonly [Program, ...Program[]],
  sources: Sources,
  store: Store,
  onProgress: (done: number, total: number) => void,
): Promise<Program> {
  if (programs.length === 1) return programs[0];
  const calm = gpu.report.fallback && programs.find(({ decodeAgrees }) => decodeAgrees);
  if (calm) return calm;
  const key = noteKey(gpu, manifest, programs);
  const remembered = await store.note(key);
  const known = remembered && programs.find((p) => p.id === new TextDecoder().decode(remembered));
  if (known) return known;
  const { timeKernel } = await import("../device/timing.ts");
  const clock: Clock = (kernel) => timeKernel(gpu, kernel);
  const chosen = await timedBest(programs, sources, clock, onProgress);
  await store.setNote(key, new TextEncoder().encode(chosen.id));
  return chosen;
}

/** The same by any clock, and without a memory. */
export async function timedBest(
  programs: readonly [Program, ...Program[]],
  sources: Sources,
  clock: Clock,
  onProgress: (done: number, total: number) => void,
): Promise<Program> {
  const times = new Map<string, number>();
  const time = async (program: Program, operation: Operation): Promise<number> => {
    const { path, kernel } = await hotKernel(program, sources, operation);
    const ms = times.get(path) ?? (await clock(kernel));
    times.set(path, ms);
    return ms;
  };
  let chosen = programs[0];
  let best = Number.POSITIVE_INFINITY;
  for (const [index, program] of programs.entries()) {
    onProgress(index, programs.length);
    if (rounds(program)) continue;
    const ms = await time(program, DECODE);
    if (ms * MARGIN < best) {
      chosen = program;
      best = ms;
    }
  }
  const rounding = programs.find((program) => rounds(program) && decodesAs(program, chosen));
  if (rounding && (await time(rounding, PREFILL)) * MARGIN < (await time(chosen, PREFILL))) {
    chosen = rounding;
  }
  onProgress(programs.length, programs.length);
  return chosen;
}

/** Whether a program that rounds has the decode of another: it needs one thing more. */
function decodesAs(program: Program, other: Program): boolean {
  const features = new Set(program.needs.features);
  return (
    other.needs.features.every((feature) => features.has(feature)) &&
    features.size === other.needs.features.length + 1
  );
}

interface Operation {
  readonly name: string;
  readonly rows: number;
  /** What kernels are told apart by. */
  readonly by: "bytes" | "flops";
}

const DECODE: Operation = { name: "decode", rows: 1, by: "bytes" };
const PREFILL: Operation = { name: "prefill", rows: ROWS, by: "flops" };

/** The kernel that stands for an operation of one sequence. */
async function hotKernel(
  program: Program,
  sources: Sources,
  operation: Operation,
): Promise<{ readonly path: string; readonly kernel: Timed }> {
  // A chunk may be shorter than these rows.
  const most = program.entries.get(operation.name)?.at(-1)?.when.get("n")?.[1] ?? operation.rows;
  const rows = Math.min(operation.rows, most);
  // Without a reach: what serves sequences of any length.
  const live = new Map(Object.entries({ n: rows, b: 1, r: 1 }));
  const plan = await sources.plan(program, planFor(program, operation.name, live));
  const step = hotLaunch(plan, rows, operation.by)?.step;
  const kernel = step && plan.kernels.get(step.kernel);
  const path = step && program.shaders.get(step.kernel);
  if (!step || !kernel || path === undefined) {
    throw new Error(`plan ${plan.name} launches ${step?.kernel}, which it does not have`);
  }
  const code = await sources.shader(program, step.kernel);
  const { timed } = await import("../device/timing.ts");
  return { path, kernel: timed(plan, step, kernel, code, rows) };
}

function noteKey(gpu: Gpu, manifest: BundleManifest, programs: readonly Program[]): string {
  const { hidden, intermediate, vocab } = manifest.model;
  const stored = storedAs(manifest.model);
  const compiler = manifest.createdBy.get("edgewise") ?? "";
  const ids = programs.map((program) => program.id).join(" ");
  return ["tuning", gpu.report.key, hidden, intermediate, vocab, stored, compiler, ids].join("|");
}
