/** WebGPU programs in this browser: everything bound once, a burst one submission. */

import { EdgewiseError, shorten } from "../errors.ts";
import { STEP_SYMBOLS } from "../format/abi.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import type { Plan, PlanBuffer } from "../format/plan.ts";
import { bufferSizes, checkShared } from "../format/plan-checks.ts";
import { PAGES } from "../format/state.ts";
import type { Counters, Elements, LoadedProgram, TimedStep, TracedStep } from "./base.ts";
import { type Bound, type BoundPlan, bindPlans, encode } from "./binding.ts";
import * as common from "./common.ts";
import { type Gpu, scoped } from "./gpu.ts";
import { growBuffers } from "./growth.ts";
import { checkAborted, compileKernels, type Shaders } from "./kernels.ts";
import { allocate, type Buffers, countBytes, declared } from "./memory.ts";
import { checkPage, checkPageBytes, pageBytes, pageParts } from "./pages.ts";
import { type Traceable, timeLaunches, traceLaunches } from "./tracing.ts";
import {
  type Arrival,
  elements,
  fetchPiece,
  fetchPieces,
  type Landings,
  makeLandings,
} from "./transfer.ts";

/** Readbacks that may be under way at once without making buffers: an engine has four at most. */
const LANDINGS = 5;
/** Outputs up to this many bytes are worth room in those landings. */
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

/** A program's parts on a GPU. */
interface Parts {
  readonly counters: Counters;
  readonly memory: Buffers;
  readonly declarations: ReadonlyMap<string, PlanBuffer>;
  /** Bytes of each buffer. */
  readonly sizes: Map<string, number>;
  /** Values of the load symbols, which grow with the pages. */
  readonly load: Map<string, number>;
  readonly bound: Bound;
  readonly landings: Landings;
}

/**
 * Bind a program to a GPU: all memory first, then kernels. Weights are uploaded by the caller.
 *
 * @throws EdgewiseError `device.memory`, `device.kernel`, `device.lost`, `load.aborted`, `plan.*`.
 */
export async function loadProgram(gpu: Gpu, source: ProgramSource): Promise<LoadedProgram> {
  const { program, plans, shaders, signal } = source;
  const load = new Map(source.loadSymbols);
  checkAborted(signal);
  const counters: Counters = {
    submits: 0,
    dispatches: 0,
    buffers: 0,
    bindGroups: 0,
    pipelines: 0,
    readbacks: 0,
    bytes: 0,
    peakBytes: 0,
    growths: 0,
    copies: 0,
    copiedBytes: 0,
  };
  checkShared(plans.values());
  const declarations = declared(plans.values());
  const sizes = bufferSizes(plans.values(), load);
  const memory = await allocate(gpu, sizes, declarations, counters);
  try {
    const kernels = await compileKernels(gpu, program, plans, shaders, counters, source);
    const mail = landingSize(plans, declarations, memory);
    const [{ bound, landings }, reported] = scoped(gpu, () => ({
      bound: bindPlans(gpu, memory, kernels, plans, load, counters),
      landings: makeLandings(gpu, counters, Array(LANDINGS).fill(mail)),
    }));
    try {
      const failed = await reported;
      if (failed) throw bindError(program, failed);
    } catch (error) {
      landings.destroy();
      throw error;
    }
    const parts = { counters, memory, declarations, sizes, load, bound, landings };
    return new WebGpuProgram(gpu, source, parts);
  } catch (error) {
    memory.destroy();
    throw error;
  }
}

function bindError(program: Program, { message }: GPUError): EdgewiseError {
  return new EdgewiseError(
    "device.bind",
    `The program ${shorten(program.id)} cannot be bound: ${message}`,
    "Compile the model again with this version of edgewise.",
  );
}

/** Landings hold what a burst's run may be asked for: its small inputs and outputs together. */
function landingSize(
  plans: ReadonlyMap<string, Plan>,
  buffers: ReadonlyMap<string, PlanBuffer>,
  memory: Buffers,
): number {
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
  return size;
}

class WebGpuProgram implements LoadedProgram, Traceable {
  readonly manifest: BundleManifest;
  readonly program: Program;
  readonly plans: ReadonlyMap<string, Plan>;
  readonly counters: Counters;
  readonly lost: Promise<EdgewiseError>;
  readonly gpu: Gpu;
  readonly landings: Landings;
  /** What the host last wrote to `step`: the values of the step symbols. */
  readonly step: number[] = STEP_SYMBOLS.map(() => 0);
  private readonly parts: Parts;
  private buffers: ReadonlyMap<string, common.Sized>;
  private closed = false;

  constructor(gpu: Gpu, { manifest, program, plans }: ProgramSource, parts: Parts) {
    this.manifest = manifest;
    this.program = program;
    this.plans = plans;
    this.counters = parts.counters;
    this.gpu = gpu;
    this.landings = parts.landings;
    this.parts = parts;
    this.buffers = this.sized();
    this.lost = new Promise((resolve) => {
      void gpu.lost.then((error) => {
        if (!this.closed) resolve(error);
      });
    });
  }

  write(name: string, data: Elements, offsetElems = 0): void {
    this.open();
    const buffer = common.findBuffer(this.buffers, name);
    const start = common.checkWrite(buffer, data, offsetElems);
    if (name === "step") {
      for (let i = 0; i < data.length && offsetElems + i < this.step.length; i++) {
        this.step[offsetElems + i] = data[i] ?? 0;
      }
    }
    const { queue } = this.gpu.device;
    queue.writeBuffer(this.memoryOf(name), start, data.buffer, data.byteOffset, data.byteLength);
  }

  async run(
    plans: readonly string[],
    k = 1,
    read: readonly string[] = [],
  ): Promise<ReadonlyMap<string, Elements>> {
    this.open();
    const last = plans.length - 1;
    const bound = plans.map((name, i) => this.find(name, i === last ? k : 1));
    const wanted = read.map((name) => {
      const { dtype, bytes } = common.findBuffer(this.buffers, name);
      return { name, dtype, buffer: this.memoryOf(name), offset: 0, size: bytes };
    });
    const encoder = this.gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    bound.forEach((plan, i) => {
      this.counters.dispatches += encode(plan, pass, this.step, i === last ? k : 1);
    });
    pass.end();
    const arrived: Arrival | null = wanted.length ? this.landings.take(encoder, wanted) : null;
    this.submit(encoder);
    if (!arrived) return new Map();
    const data = await this.unlessClosed(arrived());
    return new Map(
      wanted.map(({ name, dtype }, i) => [name, elements(dtype, data[i] ?? new ArrayBuffer(0))]),
    );
  }

  async read(name: string, firstRow = 0, rows = Number.MAX_SAFE_INTEGER): Promise<Elements> {
    this.open();
    const found = common.findBuffer(this.buffers, name);
    const { offset, size } = common.checkRows(found, firstRow, rows);
    if (size === 0) return elements(found.dtype, new ArrayBuffer(0));
    const piece = { buffer: this.memoryOf(name), offset, size };
    const submit = (encoder: GPUCommandEncoder) => this.submit(encoder);
    const data = await this.unlessClosed(fetchPiece(this.gpu, this.landings, piece, submit));
    return elements(found.dtype, data);
  }

  memory() {
    this.open();
    return countBytes(this.parts.sizes, this.parts.declarations);
  }

  get pages(): number {
    return this.parts.load.get(PAGES) ?? 0;
  }

  async grow(pages: number): Promise<void> {
    this.open();
    if (pages <= this.pages) return;
    const { gpu } = this;
    const { memory, counters, sizes, load, bound } = this.parts;
    const larger = new Map([...load, [PAGES, pages] as const]);
    const target = bufferSizes(this.plans.values(), larger);
    const rebind = (names: ReadonlySet<string>) => bound.rebind(names, larger);
    const submit = (encoder: GPUCommandEncoder) => this.submit(encoder);
    const open = () => this.open();
    const growing = { gpu, memory, counters, rebind, submit, open };
    try {
      await this.unlessClosed(growBuffers(growing, target));
      this.open();
      load.set(PAGES, pages);
      this.buffers = this.sized();
      counters.growths += 1;
    } finally {
      for (const [name, size] of target) {
        sizes.set(name, Math.min(size, memory.sizes.get(name) ?? 0));
      }
    }
  }

  get pageBytes(): number {
    return pageBytes(pageParts(this.manifest, this.program));
  }

  async readPage(page: number): Promise<Uint8Array<ArrayBuffer>> {
    this.open();
    checkPage(page, this.pages);
    const parts = pageParts(this.manifest, this.program);
    const pieces = parts.map(({ buffer, bytes }) => {
      return { buffer: this.memoryOf(buffer), offset: page * bytes, size: bytes };
    });
    const submit = (encoder: GPUCommandEncoder) => this.submit(encoder);
    const read = await this.unlessClosed(fetchPieces(this.gpu, this.landings, pieces, submit));
    const data = new Uint8Array(pageBytes(parts));
    for (const [at, { start }] of parts.entries()) {
      data.set(new Uint8Array(read[at] ?? new ArrayBuffer(0)), start);
    }
    return data;
  }

  writePage(page: number, data: Uint8Array<ArrayBuffer>): void {
    this.open();
    checkPage(page, this.pages);
    const parts = pageParts(this.manifest, this.program);
    checkPageBytes(data, pageBytes(parts));
    for (const { buffer, start, bytes } of parts) {
      const row = data.subarray(start, start + bytes);
      this.gpu.device.queue.writeBuffer(this.memoryOf(buffer), page * bytes, row);
    }
  }

  upload(tensor: string, offsetBytes: number, data: Uint8Array): void {
    this.open();
    const role = this.buffers.get(tensor)?.role;
    common.checkUpload(tensor, role, this.parts.sizes.get(tensor) ?? 0, offsetBytes, data);
    const whole = data.length - (data.length % 4);
    const target = this.memoryOf(tensor);
    const { queue } = this.gpu.device;
    if (whole > 0) queue.writeBuffer(target, offsetBytes, data.buffer, data.byteOffset, whole);
    if (whole < data.length) {
      const rest = new Uint8Array(4);
      rest.set(data.subarray(whole));
      queue.writeBuffer(target, offsetBytes + whole, rest);
    }
  }

  async settled(): Promise<void> {
    this.open();
    const done = this.gpu.device.queue.onSubmittedWorkDone();
    await this.unlessClosed(this.gpu.race(done, "work"));
    this.open();
  }

  nudge(): void {
    if (this.closed || this.gpu.ended()) return;
    this.gpu.device.queue.submit([]);
    this.counters.submits += 1;
  }

  async *trace(name: string): AsyncGenerator<TracedStep, void, undefined> {
    const launches = traceLaunches(this, this.find(name, 1));
    while (true) {
      const { value, done } = await this.unlessClosed(launches.next());
      if (done) return;
      yield value;
    }
  }

  async time(name: string): Promise<readonly TimedStep[] | null> {
    return this.unlessClosed(timeLaunches(this, this.find(name, 1)));
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.parts.memory.destroy();
    this.landings.destroy();
  }

  memoryOf(name: string): GPUBuffer {
    return this.parts.memory.get(name);
  }

  submit(encoder: GPUCommandEncoder): void {
    this.open();
    this.gpu.device.queue.submit([encoder.finish()]);
    this.counters.submits += 1;
  }

  private sized(): ReadonlyMap<string, common.Sized> {
    const { declarations, load } = this.parts;
    return new Map([...declarations].map(([name, buffer]) => [name, common.sized(buffer, load)]));
  }

  private find(name: string, k: number): BoundPlan {
    this.open();
    return common.findPlan(this.program, this.parts.bound.plans, name, k);
  }

  private open(): void {
    if (this.closed) {
      throw new EdgewiseError("device.closed", `Program ${shorten(this.program.id)} is closed.`);
    }
    const ended = this.gpu.ended();
    if (ended) throw ended;
  }

  /** What fails because the program was closed meanwhile says so. */
  private async unlessClosed<T>(promise: Promise<T>): Promise<T> {
    try {
      return await promise;
    } catch (error) {
      this.open();
      throw error;
    }
  }
}
