/**
 * How many rows of the first prompt to read at once, before anything is known of how long that takes.
 *
 * Systems reset a GPU that is busy for too long, Windows after two seconds, and a phone with a large
 * model would be with a large chunk. So the kernel in which prefill computes most is timed once.
 */

import type { AdapterReport } from "../client/types.ts";
import type { ProgramSource } from "../device/webgpu.ts";
import { EdgewiseError } from "../errors.ts";
import { storedAs } from "../format/manifest.ts";
import { planFor } from "../format/programs.ts";
import type { Store } from "../store/store.ts";
import { hotLaunch } from "./hot-kernel.ts";
import type { Clock } from "./tuning.ts";

/** Rows that are timed. */
const TIMED = 32;
/** Milliseconds that the first chunk should take at most, estimated. */
export const CHUNK_MS = 250;
/** Rows of a first chunk, at least, also where nothing is known, and at most. */
const LEAST = 16;
const MOST = 128;

/** A program with what runs it. */
export type Runs = Pick<ProgramSource, "manifest" | "program" | "plans" | "shaders">;

/**
 * Rows of the first chunk: a power of two.
 *
 * What was found is remembered for this adapter, these shapes and this compiler.
 *
 * @param report of the adapter; one in software is not timed, which would compile for long.
 * @throws EdgewiseError `device.lost`.
 */
export async function firstChunk(
  { key: adapter, fallback }: Pick<AdapterReport, "key" | "fallback">,
  runs: Runs,
  store: Pick<Store, "note" | "setNote">,
  clock: Clock,
): Promise<number> {
  if (fallback) return LEAST; // nothing resets what is no hardware
  const key = noteKey(adapter, runs);
  const remembered = await store.note(key);
  const known = remembered ? Number(new TextDecoder().decode(remembered)) : Number.NaN;
  if (known >= LEAST && known <= MOST) return known;
  const ms = await estimate(runs, clock);
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
  { manifest, program, plans, shaders }: Runs,
  clock: Clock,
): Promise<number | null> {
  const rows = Math.min(TIMED, manifest.model.prefillChunk);
  const plan = plans.get(planFor(program, "prefill", new Map([["n", rows]])));
  const hot = plan && hotLaunch(plan, rows, "flops");
  const kernel = hot && plan.kernels.get(hot.step.kernel);
  if (!plan || !hot || !kernel || hot.share === 0) return null;
  const code = shaders.get(program.shaders.get(hot.step.kernel) ?? "");
  if (code === undefined) return null;
  const { timed } = await import("../device/timing.ts");
  try {
    return ((await clock(timed(plan, hot.step, kernel, code, rows))) / hot.share) * (TIMED / rows);
  } catch (error) {
    if (error instanceof EdgewiseError && error.code === "device.kernel") return null;
    throw error;
  }
}

function noteKey(adapter: string, { manifest, program }: Runs): string {
  const { model, createdBy } = manifest;
  const { hidden, intermediate, layers, vocab } = model;
  const shapes = [hidden, intermediate, layers, vocab, storedAs(model)];
  const compiler = createdBy.get("edgewise") ?? "";
  return ["first chunk", adapter, ...shapes, compiler, program.id].join("|");
}
