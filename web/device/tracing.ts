/** Running a plan launch by launch: what each wrote, and how long it took. */

import { DTYPES } from "../format/plan.ts";
import type { Counters, TimedStep, TracedStep } from "./base.ts";
import type { BoundPlan, Grid, Launch } from "./binding.ts";
import type { Gpu } from "./gpu.ts";
import { elements, fetchPiece, type Landings } from "./transfer.ts";

/** Timestamps of one query set at most (https://www.w3.org/TR/webgpu/#dom-gpudevice-createqueryset). */
const MAX_QUERIES = 4096;

/** What of a program tracing needs. */
export interface Traceable {
  readonly gpu: Gpu;
  readonly counters: Counters;
  readonly landings: Landings;
  readonly step: readonly number[];
  memoryOf(buffer: string): GPUBuffer;
  /** @throws EdgewiseError where nothing can be submitted any more. */
  submit(encoder: GPUCommandEncoder): void;
}

/** Launch a plan's steps when drawn, and read back what each wrote but for state. */
export async function* traceLaunches(
  program: Traceable,
  bound: BoundPlan,
): AsyncGenerator<TracedStep, void, undefined> {
  const { gpu, landings } = program;
  const grids = bound.grids(program.step);
  const submit = (encoder: GPUCommandEncoder) => program.submit(encoder);
  for (const launch of bound.launches) {
    const encoder = gpu.device.createCommandEncoder();
    dispatch(encoder.beginComputePass(), launch, grids[launch.grid]);
    program.submit(encoder);
    program.counters.dispatches += 1;
    const outputs = [];
    for (const { buffer, offset, dtype, shape } of launch.outputs) {
      const size = shape.reduce((a, b) => a * b, DTYPES.get(dtype) ?? 1);
      const piece = { buffer: program.memoryOf(buffer), offset, size };
      const data = elements(dtype, await fetchPiece(gpu, landings, piece, submit));
      outputs.push({ buffer, dtype, shape, data });
    }
    yield { label: launch.label, kernel: launch.kernel, outputs };
  }
}

/**
 * Run a plan once, each launch in a pass of its own; browsers may round to 0.1 ms.
 *
 * @returns null where the adapter has no timestamps.
 */
export async function timeLaunches(
  program: Traceable,
  bound: BoundPlan,
): Promise<readonly TimedStep[] | null> {
  if (!program.gpu.device.features.has("timestamp-query")) return null;
  const grids = bound.grids(program.step);
  const timed: TimedStep[] = [];
  for (let at = 0; at < bound.launches.length; at += MAX_QUERIES / 2) {
    const launches = bound.launches.slice(at, at + MAX_QUERIES / 2);
    const times = await timeSome(program, launches, grids);
    launches.forEach(({ label, kernel }, i) => {
      timed.push({ label, kernel, ns: times[i] ?? 0 });
    });
  }
  return timed;
}

/** Nanoseconds of each of a few launches. */
async function timeSome(
  program: Traceable,
  launches: readonly Launch[],
  grids: readonly Grid[],
): Promise<readonly number[]> {
  const { device } = program.gpu;
  const count = 2 * launches.length;
  const querySet = device.createQuerySet({ type: "timestamp", count });
  const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
  const resolved = device.createBuffer({ size: 8 * count, usage });
  try {
    const encoder = device.createCommandEncoder();
    launches.forEach((launch, i) => {
      const writes = { beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 };
      const pass = encoder.beginComputePass({ timestampWrites: { querySet, ...writes } });
      dispatch(pass, launch, grids[launch.grid]);
    });
    encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
    const arrived = program.landings.take(encoder, [
      { buffer: resolved, offset: 0, size: 8 * count },
    ]);
    program.submit(encoder);
    program.counters.dispatches += launches.length;
    const [data] = await arrived();
    const stamps = new BigUint64Array(data ?? new ArrayBuffer(0));
    // Clocks may be set back when a GPU changes its power state: that took no time, not less.
    return launches.map((_, i) =>
      Math.max(0, Number((stamps[2 * i + 1] ?? 0n) - (stamps[2 * i] ?? 0n))),
    );
  } finally {
    querySet.destroy();
    resolved.destroy();
  }
}

function dispatch(pass: GPUComputePassEncoder, launch: Launch, grid: Grid | undefined): void {
  pass.setPipeline(launch.pipeline);
  pass.setBindGroup(0, launch.group);
  if (grid) pass.dispatchWorkgroups(...grid);
  pass.end();
}
