/**
 * How many rows of the first prompt to read at once, before anything is known of how long that takes.
 *
 * Systems reset a GPU that is busy for too long, Windows after two seconds, and a phone with a large
 * model would be with a large chunk. So the kernel in which prefill computes most is timed once.
 */

import { timed } from "../device/timing.ts";
import { EdgewiseError } from "../errors.ts";
import { evaluate } from "../format/expr.ts";
import { type BundleManifest, type Program, storedAs } from "../format/manifest.ts";
import type { Plan, Step } from "../format/plan.ts";
import { planFor } from "../format/programs.ts";
import type { Store } from "../store/store.ts";
import type { Clock } from "./tuning.ts";

/** Rows that are timed. */
const TIMED = 32;
/** Milliseconds that the first chunk should take at most, estimated. */
const CHUNK_MS = 250;
/** Rows of a first chunk, at least, also where nothing is known, and at most. */
const LEAST = 16;
const MOST = 128;

/** A program with what runs it. */
export interface Runnable {
  readonly program: Program;
  readonly plans: ReadonlyMap<string, Plan>;
  /** WGSL by path. */
  readonly shaders: ReadonlyMap<string, string>;
}

/**
 * Rows of the first chunk: a power of two.
 *
 * What was found is remembered for this adapter, these shapes and this compiler.
 *
 * @param adapter names it.
 * @throws EdgewiseError `device.lost`.
 */
export async function firstChunk(
  adapter: string,
  manifest: BundleManifest,
  runnable: Runnable,
  store: Pick<Store, "note" | "setNote">,
  clock: Clock,
): Promise<number> {
  const key = noteKey(adapter, manifest, runnable.program);
  const remembered = await store.note(key);
  const known = remembered ? Number(new TextDecoder().decode(remembered)) : Number.NaN;
  if (known >= LEAST && known <= MOST) return known;
  const ms = await estimate(manifest, runnable, clock);
  if (ms === null) return LEAST;
  const rows = rowsWithin(ms);
  await store.setNote(key, new TextEncoder().encode(String(rows)));
  return rows;
}

/** @param ms milliseconds that `TIMED` rows should take. */
export function rowsWithin(ms: number): number {
  const rows = 2 ** Math.floor(Math.log2((TIMED * CHUNK_MS) / Math.max(ms, 1e-3)));
  return Math.min(Math.max(rows, LEAST), MOST);
}

/** Milliseconds that a chunk of `TIMED` rows should take; null where that cannot be known. */
async function estimate(
  manifest: BundleManifest,
  { program, plans, shaders }: Runnable,
  clock: Clock,
): Promise<number | null> {
  const rows = Math.min(TIMED, manifest.model.prefillChunk);
  const plan = plans.get(planFor(program, "prefill", new Map([["n", rows]])));
  const hot = plan && hottest(plan, rows);
  const kernel = hot && plan.kernels.get(hot.step.kernel);
  if (!plan || !hot || !kernel) return null;
  const code = shaders.get(program.shaders.get(hot.step.kernel) ?? "");
  if (code === undefined) return null;
  try {
    return ((await clock(timed(plan, hot.step, kernel, code, rows))) / hot.share) * (TIMED / rows);
  } catch (error) {
    if (error instanceof EdgewiseError && error.code === "device.kernel") return null;
    throw error;
  }
}

/** The launch that computes most, and its share of all that the plan computes. */
function hottest(plan: Plan, rows: number): { readonly step: Step; readonly share: number } | null {
  const values = new Map([
    ["n", rows],
    ["b", 1],
    ["r", 1],
    ["t", rows],
    ["kv", 0],
    ["pages", 1],
  ]);
  const flops = plan.steps.map(({ kernel }) =>
    evaluate(plan.kernels.get(kernel)?.cost?.flops ?? 0, values),
  );
  const most = Math.max(...flops);
  const step = plan.steps[flops.indexOf(most)];
  const share = most / flops.reduce((sum, each) => sum + each, 0);
  return step && share > 0 ? { step, share } : null;
}

function noteKey(adapter: string, { model, createdBy }: BundleManifest, program: Program): string {
  const { hidden, intermediate, layers, vocab } = model;
  const shapes = [hidden, intermediate, layers, vocab, storedAs(model)];
  const compiler = createdBy.get("edgewise") ?? "";
  return ["first chunk", adapter, ...shapes, compiler, program.id].join("|");
}
