/** How long one kernel takes on this adapter, on buffers of its own: what programs are chosen by. */

import { EdgewiseError } from "../errors.ts";
import { bounds } from "../format/expr.ts";
import type { Kernel, Plan, Step } from "../format/plan.ts";
import { type Gpu, scoped } from "./gpu.ts";
import { accessOf, compilePipeline, layoutOf } from "./kernels.ts";
import { LAST_UNIFORM, LAST_UNIFORM_BYTES } from "./memory.ts";

/** Browsers round timestamps to 0.1 ms: a round takes at least this long, in milliseconds. */
const ROUND_MS = 4;
const ROUNDS = 3;
/** A launch that takes this long is told apart from others by a single round. */
const SLOW_MS = 25;
const MAX_REPEATS = 256;

const BYTES: Readonly<Record<string, number>> = {
  float32: 4,
  int32: 4,
  uint32: 4,
  float16: 2,
  int8: 1,
};

/** A kernel of a plan with its WGSL and the grid of so many rows of one sequence. */
export interface Timed {
  readonly kernel: Kernel;
  readonly code: string;
  readonly rows: number;
  readonly grid: readonly [number, number, number];
  /** Bytes of each argument. */
  readonly sizes: readonly number[];
  /** The argument that is the plan's `step` buffer, -1 for a kernel that does not look at it. */
  readonly step: number;
}

/** A step of a plan, made ready for `rows` of one sequence that has seen one token. */
export function timed(plan: Plan, step: Step, kernel: Kernel, code: string, rows = 1): Timed {
  const one = new Map<string, readonly [number, number]>();
  const most = new Map<string, readonly [number, number]>();
  for (const symbol of plan.symbols) {
    const value = symbol.name === "n" ? Math.min(rows, symbol.max) : symbol.min;
    one.set(symbol.name, [value, value]);
    // The state of one page is enough to find out how fast a kernel is.
    most.set(symbol.name, symbol.kind === "load" ? [1, 1] : [symbol.max, symbol.max]);
  }
  const at = (dim: (typeof step.grid)[number]) => bounds(dim, one)[1];
  return {
    kernel,
    code,
    rows,
    grid: [at(step.grid[0]), at(step.grid[1]), at(step.grid[2])],
    step: step.bindings.findIndex(({ buffer }) => buffer === "step"),
    sizes: kernel.args.map((arg) => {
      const elements = arg.shape.reduce<number>((size, dim) => size * bounds(dim, most)[1], 1);
      return Math.ceil((elements * (BYTES[arg.dtype] ?? 4)) / 16) * 16;
    }),
  };
}

/**
 * Milliseconds of one launch, the least of a few rounds. Compiling it is not counted.
 *
 * @throws EdgewiseError `device.kernel` where it does not compile, `device.lost`.
 */
export async function timeKernel(gpu: Gpu, job: Timed): Promise<number> {
  const { device } = gpu;
  const { kernel, code, grid } = job;
  const buffers: GPUBuffer[] = [];
  const queries = device.features.has("timestamp-query")
    ? device.createQuerySet({ type: "timestamp", count: 2 })
    : null;
  try {
    const pipeline = await compilePipeline(gpu, kernel.symbol, kernel, code);
    const [group, reported] = scoped(gpu, () => bindScratch(gpu, job, buffers));
    const refused = await reported;
    if (refused) throw new Error(refused.message);
    const round = async (repeats: number): Promise<number> => {
      const encoder = device.createCommandEncoder();
      const stamps = queries && {
        timestampWrites: {
          querySet: queries,
          beginningOfPassWriteIndex: 0,
          endOfPassWriteIndex: 1,
        },
      };
      const pass = encoder.beginComputePass(stamps ?? {});
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      for (let i = 0; i < repeats; i++) pass.dispatchWorkgroups(...grid);
      pass.end();
      const started = performance.now();
      if (!queries) {
        device.queue.submit([encoder.finish()]);
        await gpu.race(device.queue.onSubmittedWorkDone(), "trial");
        return (performance.now() - started) / repeats;
      }
      return (await readStamps(gpu, encoder, queries)) / repeats;
    };
    const first = Math.max(await round(1), 1e-3);
    const repeats = Math.max(1, Math.min(MAX_REPEATS, Math.ceil(ROUND_MS / first)));
    let best = await round(repeats);
    for (let i = 1; i < ROUNDS && best < SLOW_MS; i++) best = Math.min(best, await round(repeats));
    return best;
  } catch (error) {
    throw EdgewiseError.from(error, "device.kernel", `The kernel ${kernel.symbol} cannot be timed`);
  } finally {
    for (const buffer of buffers) buffer.destroy();
    queries?.destroy();
  }
}

/** Buffers that hold nothing, bound as the kernel asks; the ones made are added to `buffers`. */
function bindScratch(gpu: Gpu, job: Timed, buffers: GPUBuffer[]): GPUBindGroup {
  const { kernel, sizes, step, rows } = job;
  const { device } = gpu;
  const make = (
    size: number,
    usage: number,
    data?: Int32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>,
  ) => {
    const buffer = device.createBuffer({ size, usage: usage | GPUBufferUsage.COPY_DST });
    buffers.push(buffer);
    if (data) device.queue.writeBuffer(buffer, 0, data);
  };
  kernel.args.forEach((_, i) => {
    // Rows of one sequence: with none, a kernel ends at once.
    const live = i === step ? Int32Array.of(rows, 1, 1, 1) : undefined;
    make(sizes[i] ?? 16, GPUBufferUsage.STORAGE, live);
  });
  make(LAST_UNIFORM_BYTES, GPUBufferUsage.UNIFORM, LAST_UNIFORM);
  return device.createBindGroup({
    layout: layoutOf(gpu, accessOf(kernel)),
    entries: buffers.map((buffer, binding) => ({ binding, resource: { buffer } })),
  });
}

/** Submit; milliseconds between the two timestamps. */
async function readStamps(
  gpu: Gpu,
  encoder: GPUCommandEncoder,
  queries: GPUQuerySet,
): Promise<number> {
  const { device } = gpu;
  const resolved = device.createBuffer({
    size: 16,
    usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
  });
  const landing = device.createBuffer({
    size: 16,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  try {
    encoder.resolveQuerySet(queries, 0, 2, resolved, 0);
    encoder.copyBufferToBuffer(resolved, 0, landing, 0, 16);
    device.queue.submit([encoder.finish()]);
    await gpu.race(landing.mapAsync(GPUMapMode.READ), "trial");
    const [begin = 0n, end = 0n] = new BigUint64Array(landing.getMappedRange());
    return Number(end - begin) / 1e6;
  } finally {
    resolved.destroy();
    landing.destroy();
  }
}
