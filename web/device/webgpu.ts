/** WebGPU programs in this browser: everything bound once, a burst one submission. */

import { EdgewiseError, shorten } from "../errors.ts";
import { evaluate } from "../format/expr.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import { DTYPES, type Plan, type PlanBuffer } from "../format/plan.ts";
import { bufferSizes, checkShared } from "../format/plan-checks.ts";
import type { Counters, Elements, LoadedProgram, TimedStep, TracedStep } from "./base.ts";
import {
  type BoundPlan,
  bindPlans,
  compileKernels,
  encode,
  type Launch,
  type Shaders,
  STEP_FIELDS,
} from "./binding.ts";
import type { Gpu } from "./gpu.ts";
import { allocate, type Buffers, countBytes, declared } from "./memory.ts";
import { elements, Landings } from "./transfer.ts";

/** Readbacks that may be under way at once: of the burst that runs, and of the one before. */
const LANDINGS = 3;
/** Outputs up to this many bytes are worth a landing of their own size, made when loading. */
const MAX_MAIL = 64 << 10;

export interface ProgramSource {
  readonly manifest: BundleManifest;
  readonly program: Program;
  readonly plans: ReadonlyMap<string, Plan>;
  /** WGSL by path. */
  readonly shaders: Shaders;
  /** Values of the load symbols. */
  readonly loadSymbols: ReadonlyMap<string, number>;
  readonly onProgress?: (done: number, total: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Bind a program to a GPU: all memory first, then kernels. Weights are uploaded by the caller.
 *
 * @throws EdgewiseError `device.memory`, `device.kernel`, `device.lost`, `load.aborted`, `plan.*`.
 */
export async function loadProgram(gpu: Gpu, source: ProgramSource): Promise<LoadedProgram> {
  const { program, plans, shaders, loadSymbols: load, onProgress, signal } = source;
  const counters: Counters = {
    submits: 0,
    dispatches: 0,
    buffers: 0,
    bindGroups: 0,
    pipelines: 0,
    readbacks: 0,
  };
  checkShared(plans.values());
  const buffers = declared(plans.values());
  const sizes = bufferSizes(plans.values(), load);
  const memory = await allocate(gpu, sizes, buffers, counters);
  try {
    const kernels = await compileKernels(
      gpu,
      program,
      plans,
      shaders,
      counters,
      onProgress,
      signal,
    );
    gpu.device.pushErrorScope("validation");
    const bound = bindPlans(gpu, memory, kernels, plans, load, counters);
    const landings = new Landings(gpu, counters, landingSizes(plans, buffers, memory));
    const invalid = await gpu.race(gpu.device.popErrorScope());
    if (invalid) {
      landings.destroy();
      throw EdgewiseError.from(
        invalid,
        "device.bind",
        `The program ${shorten(program.id)} cannot be bound`,
        "Compile the model again with this version of edgewise.",
      );
    }
    return new WebGpuProgram(gpu, source, counters, buffers, memory, bound, landings);
  } catch (error) {
    memory.destroy();
    throw error;
  }
}

/** Landings hold what a burst's run may be asked for: its small inputs and outputs together. */
function landingSizes(
  plans: ReadonlyMap<string, Plan>,
  buffers: ReadonlyMap<string, PlanBuffer>,
  memory: Buffers,
): number[] {
  const written = new Set<string>();
  for (const plan of plans.values()) {
    for (const step of plan.steps) for (const name of step.writes) written.add(name);
  }
  let size = 0;
  for (const [name, { role }] of buffers) {
    const bytes = memory.sizes.get(name) ?? 0;
    const small = role === "input" || (role === "output" && bytes <= MAX_MAIL);
    if (small && written.has(name)) size += Math.ceil(bytes / 8) * 8;
  }
  return Array.from({ length: LANDINGS }, () => size);
}

class WebGpuProgram implements LoadedProgram {
  readonly manifest: BundleManifest;
  readonly program: Program;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly counters: Counters;
  readonly lost: Promise<EdgewiseError>;
  private readonly gpu: Gpu;
  private readonly buffers: ReadonlyMap<string, PlanBuffer>;
  private readonly load: ReadonlyMap<string, number>;
  private readonly memoryOf: Buffers;
  private readonly bound: ReadonlyMap<string, BoundPlan>;
  private readonly landings: Landings;
  private readonly step: number[] = STEP_FIELDS.map(() => 0);
  private closed = false;
  private failure: EdgewiseError | null = null;

  constructor(
    gpu: Gpu,
    { manifest, program, plans, loadSymbols }: ProgramSource,
    counters: Counters,
    buffers: ReadonlyMap<string, PlanBuffer>,
    memory: Buffers,
    bound: ReadonlyMap<string, BoundPlan>,
    landings: Landings,
  ) {
    this.manifest = manifest;
    this.program = program;
    this.plans = plans;
    this.counters = counters;
    this.gpu = gpu;
    this.buffers = buffers;
    this.load = loadSymbols;
    this.memoryOf = memory;
    this.bound = bound;
    this.landings = landings;
    this.lost = new Promise((resolve) => {
      void gpu.lost.then((error) => {
        this.failure = error;
        if (!this.closed) resolve(error);
      });
    });
  }

  write(name: string, data: Elements, offsetElems = 0): void {
    const buffer = this.visible(name);
    const size = DTYPES.get(buffer.dtype) ?? 1;
    if (buffer.role === "param") throw bufferError(`The parameter ${shorten(name)} is read-only.`);
    if (data.constructor !== elements(buffer.dtype, new ArrayBuffer(0)).constructor) {
      throw bufferError(`${shorten(name)} is ${buffer.dtype}, not ${data.constructor.name}.`);
    }
    const start = offsetElems * size;
    const end = start + data.byteLength;
    const most = this.bytesOf(buffer);
    if (!Number.isInteger(offsetElems) || offsetElems < 0 || end > most) {
      throw bufferError(`Bytes ${start}..${end} are not in ${shorten(name)}, which has ${most}.`);
    }
    if (start % 4 || data.byteLength % 4) {
      throw bufferError(
        `Bytes ${start}..${end} of ${shorten(name)}: a GPU's memory is written 4 bytes at a time.`,
      );
    }
    if (name === "step") {
      for (let i = 0; i < data.length && offsetElems + i < this.step.length; i++) {
        this.step[offsetElems + i] = data[i] ?? 0;
      }
    }
    const { buffer: memory, byteOffset, byteLength } = data;
    this.gpu.device.queue.writeBuffer(
      this.memoryOf.get(name),
      start,
      memory,
      byteOffset,
      byteLength,
    );
  }

  async run(
    plans: readonly string[],
    k = 1,
    read: readonly string[] = [],
  ): Promise<ReadonlyMap<string, Elements>> {
    const bound = plans.map((name, i) => this.find(name, i === plans.length - 1 ? k : 1));
    const wanted = read.map((name) => {
      const buffer = this.visible(name);
      const size = this.bytesOf(buffer);
      return { name, dtype: buffer.dtype, buffer: this.memoryOf.get(name), offset: 0, size };
    });
    const encoder = this.gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    bound.forEach((plan, i) => {
      this.counters.dispatches += encode(plan, pass, this.step, i === bound.length - 1 ? k : 1);
    });
    pass.end();
    const arrived = wanted.length > 0 ? this.landings.take(encoder, wanted) : null;
    this.submit(encoder);
    const data = (await arrived?.()) ?? [];
    return new Map(
      wanted.map(({ name, dtype }, i) => [name, elements(dtype, data[i] ?? new ArrayBuffer(0))]),
    );
  }

  async read(name: string, firstRow = 0, rows?: number): Promise<Elements> {
    const buffer = this.visible(name);
    const [height = 1, ...rest] = buffer.shape.map((dim) => evaluate(dim, this.load));
    const row = rest.reduce((a, b) => a * b, DTYPES.get(buffer.dtype) ?? 1);
    const count = Math.max(0, Math.min(rows ?? height, height - firstRow));
    if (!Number.isInteger(firstRow) || firstRow < 0 || (firstRow * row) % 4) {
      throw bufferError(`Row ${firstRow} of ${shorten(name)} cannot be read by itself.`);
    }
    if (count === 0) return elements(buffer.dtype, new ArrayBuffer(0));
    return this.fetch(name, firstRow * row, count * row, buffer.dtype);
  }

  memory() {
    this.open();
    return countBytes(this.memoryOf.sizes, this.buffers);
  }

  upload(tensor: string, offsetBytes: number, data: Uint8Array): void {
    this.open();
    const buffer = this.buffers.get(tensor);
    const size = this.memoryOf.sizes.get(tensor) ?? 0;
    if (buffer?.role !== "param" || offsetBytes % 4 || offsetBytes + data.length > size) {
      throw bufferError(
        `Bytes ${offsetBytes}..${offsetBytes + data.length} cannot be uploaded to ${shorten(tensor)}.`,
      );
    }
    const whole = data.length - (data.length % 4);
    const target = this.memoryOf.get(tensor);
    const { queue } = this.gpu.device;
    const { buffer: memory, byteOffset } = data as Uint8Array<ArrayBuffer>;
    if (whole > 0) queue.writeBuffer(target, offsetBytes, memory, byteOffset, whole);
    if (whole < data.length) {
      const rest = new Uint8Array(4);
      rest.set(data.subarray(whole));
      queue.writeBuffer(target, offsetBytes + whole, rest);
    }
  }

  async settled(): Promise<void> {
    this.open();
    await this.gpu.race(this.gpu.device.queue.onSubmittedWorkDone());
    this.open();
  }

  async *trace(name: string): AsyncGenerator<TracedStep, void, undefined> {
    const bound = this.find(name, 1);
    const grids = bound.grids(this.step);
    for (const launch of bound.launches) {
      this.open();
      const encoder = this.gpu.device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      dispatch(pass, launch, grids[launch.grid]);
      pass.end();
      this.submit(encoder);
      this.counters.dispatches += 1;
      const outputs = [];
      for (const { buffer, offset, dtype, shape } of launch.outputs) {
        const size = shape.reduce((a, b) => a * b, DTYPES.get(dtype) ?? 1);
        outputs.push({ buffer, dtype, shape, data: await this.fetch(buffer, offset, size, dtype) });
      }
      yield { label: launch.label, kernel: launch.kernel, outputs };
    }
  }

  async time(name: string): Promise<readonly TimedStep[] | null> {
    const { launches, grids } = this.find(name, 1);
    const { device } = this.gpu;
    if (!device.features.has("timestamp-query")) return null;
    const extents = grids(this.step);
    const count = 2 * launches.length;
    const queries = device.createQuerySet({ type: "timestamp", count });
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    const resolved = device.createBuffer({ size: 8 * count, usage });
    try {
      const encoder = device.createCommandEncoder();
      launches.forEach((launch, i) => {
        const pass = encoder.beginComputePass({
          timestampWrites: {
            querySet: queries,
            beginningOfPassWriteIndex: 2 * i,
            endOfPassWriteIndex: 2 * i + 1,
          },
        });
        dispatch(pass, launch, extents[launch.grid]);
        pass.end();
      });
      encoder.resolveQuerySet(queries, 0, count, resolved, 0);
      const wanted = { buffer: resolved, offset: 0, size: 8 * count };
      const arrived = this.landings.take(encoder, [wanted]);
      this.submit(encoder);
      const [data] = await arrived();
      const stamps = new BigUint64Array(data ?? new ArrayBuffer(0));
      return launches.map(({ label, kernel }, i) => ({
        label,
        kernel,
        ns: Number((stamps[2 * i + 1] ?? 0n) - (stamps[2 * i] ?? 0n)),
      }));
    } finally {
      queries.destroy();
      resolved.destroy();
    }
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.memoryOf.destroy();
    this.landings.destroy();
  }

  private async fetch(
    name: string,
    offset: number,
    size: number,
    dtype: string,
  ): Promise<Elements> {
    this.open();
    const encoder = this.gpu.device.createCommandEncoder();
    const wanted = { buffer: this.memoryOf.get(name), offset, size };
    const arrived = this.landings.take(encoder, [wanted]);
    this.submit(encoder);
    const [data] = await arrived();
    return elements(dtype, data ?? new ArrayBuffer(0));
  }

  private submit(encoder: GPUCommandEncoder): void {
    this.gpu.device.queue.submit([encoder.finish()]);
    this.counters.submits += 1;
  }

  private find(name: string, k: number): BoundPlan {
    this.open();
    const bound = this.bound.get(name);
    if (!bound) {
      const known = [...this.bound.keys()].join(", ");
      const message = `Program ${this.program.id} has no plan ${shorten(name)}; it has ${known}.`;
      throw new EdgewiseError("device.plan", message);
    }
    const most = bound.plan.loop?.maxBurst ?? 1;
    if (!Number.isInteger(k) || k < 1 || k > most) {
      const message = `Plan ${shorten(name)} runs 1..${most} times a call, not ${k}.`;
      throw new EdgewiseError("device.plan", message);
    }
    return bound;
  }

  private visible(name: string): PlanBuffer {
    this.open();
    const buffer = this.buffers.get(name);
    if (buffer && buffer.role !== "scratch") return buffer;
    const what = buffer ? "scratch" : "no buffer of this program";
    throw bufferError(`${shorten(name)} is ${what}.`);
  }

  /** Bytes of a buffer as its shape says; what a landing or a write may hold. */
  private bytesOf({ shape, dtype }: PlanBuffer): number {
    return shape.reduce<number>(
      (size, dim) => size * evaluate(dim, this.load),
      DTYPES.get(dtype) ?? 1,
    );
  }

  private open(): void {
    if (this.failure) throw this.failure;
    if (this.closed) {
      const message = `Program ${shorten(this.program.id)} is closed.`;
      throw new EdgewiseError("device.closed", message);
    }
  }
}

function dispatch(
  pass: GPUComputePassEncoder,
  launch: Launch,
  grid: readonly [number, number, number] | undefined,
): void {
  pass.setPipeline(launch.pipeline);
  pass.setBindGroup(0, launch.group);
  if (grid) pass.dispatchWorkgroups(...grid);
}

function bufferError(message: string): EdgewiseError {
  return new EdgewiseError("device.buffer", message);
}
