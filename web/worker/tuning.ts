/** Which of the programs that fit an adapter is the fastest on it. */

import type { Gpu } from "../device/gpu.ts";
import { type Timed, timed, timeKernel } from "../device/timing.ts";
import { evaluate } from "../format/expr.ts";
import { type BundleManifest, type Program, storedAs } from "../format/manifest.ts";
import type { Plan } from "../format/plan.ts";
import { planFor } from "../format/programs.ts";
import type { Store } from "../store/store.ts";

/**
 * A program later in the compiler's order is chosen where its hot kernel is this much faster. The
 * order knows more than one kernel: memory, prefill, arithmetic.
 */
const MARGIN = 1.5;

/** One token of one sequence, nothing in KV: what the cost of decode is compared at. */
const ONE = new Map([
  ["n", 1],
  ["b", 1],
  ["r", 1],
  ["t", 1],
  ["kv", 0],
  ["pages", 1],
]);

/** Reads what a candidate needs to be timed: its decode plan, and a shader of it. */
export interface Sources {
  plan(program: Program, name: string): Promise<Plan>;
  shader(program: Program, kernel: string): Promise<string>;
}

/**
 * The fastest of `programs`, found by running the kernel in which decode spends most of its bytes.
 *
 * Programs share kernels, so two to four are timed. The choice is remembered for this adapter, these
 * shapes and this compiler.
 *
 * @param programs the preferred first.
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
  const key = noteKey(gpu, manifest, programs);
  const remembered = await store.note(key);
  const known = remembered && programs.find((p) => p.id === new TextDecoder().decode(remembered));
  if (known) return known;
  const times = new Map<string, number>();
  let chosen = programs[0];
  let best = Number.POSITIVE_INFINITY;
  for (const [index, program] of programs.entries()) {
    onProgress(index, programs.length);
    const { path, kernel } = await hotKernel(program, sources);
    let ms = times.get(path);
    if (ms === undefined) {
      ms = await timeKernel(gpu, kernel);
      times.set(path, ms);
    }
    if (ms * MARGIN < best) {
      chosen = program;
      best = ms;
    }
  }
  onProgress(programs.length, programs.length);
  await store.setNote(key, new TextEncoder().encode(chosen.id));
  return chosen;
}

/** The kernel that moves most of the bytes of a decode step, all its launches together. */
async function hotKernel(
  program: Program,
  sources: Sources,
): Promise<{ readonly path: string; readonly kernel: Timed }> {
  const plan = await sources.plan(program, planFor(program, "decode", new Map([["b", 1]])));
  const bytes = new Map<string, number>();
  for (const step of plan.steps) {
    const cost = plan.kernels.get(step.kernel)?.cost?.bytes ?? 0;
    bytes.set(step.kernel, (bytes.get(step.kernel) ?? 0) + evaluate(cost, ONE));
  }
  const step = plan.steps.reduce((hottest, step) =>
    (bytes.get(step.kernel) ?? 0) > (bytes.get(hottest.kernel) ?? 0) ? step : hottest,
  );
  const kernel = plan.kernels.get(step.kernel);
  const path = program.shaders.get(step.kernel);
  if (kernel === undefined || path === undefined) {
    throw new Error(`plan ${plan.name} launches ${step.kernel}, which it does not have`);
  }
  const code = await sources.shader(program, step.kernel);
  return { path, kernel: timed(plan, step, kernel, code) };
}

function noteKey(gpu: Gpu, manifest: BundleManifest, programs: readonly Program[]): string {
  const { hidden, intermediate, vocab } = manifest.model;
  const stored = storedAs(manifest.model);
  const compiler = manifest.createdBy.get("edgewise") ?? "";
  const ids = programs.map((program) => program.id).join(" ");
  return ["tuning", gpu.report.key, hidden, intermediate, vocab, stored, compiler, ids].join("|");
}
