/** WebGPU programs in this browser: everything bound once, a burst one submission. */

import { EdgewiseError, shorten } from "../errors.ts";
import { STEP_SYMBOLS } from "../format/abi.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import type { Plan, PlanBuffer } from "../format/plan.ts";
import { bufferSizes, checkShared } from "../format/plan-checks.ts";
import { PAGES } from "../format/state.ts";
import type { Counters, Elements, LoadedProgram, TimedStep, TracedStep } from "./base.ts";
import { type Bound, type BoundPlan, encode, unbound } from "./binding.ts";
import * as common from "./common.ts";
import { type Gpu, scoped } from "./gpu.ts";
import { growBuffers, shrinkBuffers } from "./growth.ts";
import { type CompileOptions, checkAborted, compileKernels, type Shaders } from "./kernels.ts";
import { allocate, type Buffers, countBytes, declared, wordsOf } from "./memory.ts";
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
  /** Plans that are not bound before `prepare` asks for them. */
  readonly later?: ReadonlySet<string>;
  /** Uploads the weights, while kernels are compiled. */
  readonly fill?: (program: LoadedProgram, signal: AbortSignal) => Promise<void>;
  /** Hears of kernels. */
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
 * Bind a program to a GPU: all memory first, then kernels, and meanwhile weights if `fill` uploads them.
 *
 * @throws EdgewiseError `device.memory`, `device.kernel`, `device.lost`, `load.aborted`, `plan.*`, and what `fill` throws.
 */
export async function loadProgram(gpu: Gpu, source: ProgramSource): Promise<LoadedProgram> {
  const { program, plans, later, fill, onProgress, signal } = source;
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
    shrinks: 0,
    copies: 0,
    copiedBytes: 0,
  };
  checkShared(plans.values());
  const declarations = declared(plans.values());
  const sizes = bufferSizes(plans.values(), load);
  const memory = await allocate(gpu, sizes, declarations, counters);
  try {
    const mail = landingSize(plans, declarations, memory);
    const [landings, reported] = scoped(gpu, () =>
      makeLandings(gpu, counters, Array(LANDINGS).fill(mail)),
    );
    const bound = unbound(gpu, memory, counters);
    const parts = { counters, memory, declarations, sizes, load, bound, landings };
    const loaded = new WebGpuProgram(gpu, source, parts);
    const now = [...plans.keys()].filter((name) => !later?.has(name));
    try {
      const failed = await reported;
      if (failed) throw bindError(program, failed);
      await together(signal, [
        (ending) => loaded.bind(now, { onProgress, signal: ending }),
        async (ending) => fill?.(loaded, ending),
      ]);
    } catch (error) {
      landings.destroy();
      throw error;
    }
    return loaded;
  } catch (error) {
    memory.destroy();
    throw error;
  }
}

/**
 * Both at once. Where one fails the other is told to end, and waited for; the first error is thrown.
 *
 * @param signal ends both.
 */
async function together(
  signal: AbortSignal | undefined,
  works: readonly ((ending: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const ending = new AbortController();
  const either = signal ? AbortSignal.any([signal, ending.signal]) : ending.signal;
  const failures: unknown[] = [];
  const noted = works.map((work) =>
    work(either).catch((error: unknown) => {
      failures.push(error);
      ending.abort();
    }),
  );
  await Promise.all(noted);
  if (failures.length > 0) throw failures[0];
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
  private readonly shaders: Shaders;
  private readonly preparing = new Map<string, Promise<void>>();
  private buffers: ReadonlyMap<string, common.Sized>;
  private closed = false;

  constructor(gpu: Gpu, { manifest, program, plans, shaders }: ProgramSource, parts: Parts) {
    this.manifest = manifest;
    this.program = program;
    this.plans = plans;
    this.counters = parts.counters;
    this.gpu = gpu;
    this.landings = parts.landings;
    this.parts = parts;
    this.shaders = shaders;
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

  async prepare(plans: readonly string[]): Promise<void> {
    this.open();
    const { bound } = this.parts;
    const wanted = plans.filter((name) => !bound.plans.has(name));
    await this.unlessClosed(Promise.all(wanted.map((name) => this.prepared(name))));
  }

  private prepared(name: string): Promise<void> {
    const known = this.preparing.get(name);
    if (known) return known;
    const made = this.bind([name]).finally(() => this.preparing.delete(name));
    this.preparing.set(name, made);
    return made;
  }

  /** Compile and bind plans. */
  async bind(names: readonly string[], options: CompileOptions = {}): Promise<void> {
    const { gpu, program, shaders } = this;
    const { bound, counters, load } = this.parts;
    const plans = new Map(names.map((name) => [name, common.knownPlan(program, this.plans, name)]));
    const kernels = await compileKernels(gpu, program, plans, shaders, counters, options);
    this.open();
    const [, reported] = scoped(gpu, () => bound.add(plans, kernels, load));
    const failed = await reported;
    if (failed) throw bindError(program, failed);
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
    const { counters, load } = this.parts;
    await this.resize(pages, growBuffers);
    load.set(PAGES, pages);
    this.buffers = this.sized();
    counters.growths += 1;
  }

  async shrink(pages: number): Promise<void> {
    this.open();
    if (pages >= this.pages) return;
    const { counters, load } = this.parts;
    // First: whatever comes of it, nothing is in the others.
    load.set(PAGES, pages);
    this.buffers = this.sized();
    await this.resize(pages, shrinkBuffers);
    counters.shrinks += 1;
  }

  /** Have buffers replaced by those of so many pages. */
  private async resize(pages: number, replace: typeof growBuffers): Promise<void> {
    const { gpu } = this;
    const { memory, counters, sizes, load, bound } = this.parts;
    const wanted = new Map([...load, [PAGES, pages] as const]);
    const target = bufferSizes(this.plans.values(), wanted);
    const rebind = (names: ReadonlySet<string>) => bound.rebind(names, wanted);
    const submit = (encoder: GPUCommandEncoder) => this.submit(encoder);
    const open = () => this.open();
    try {
      await this.unlessClosed(replace({ gpu, memory, counters, rebind, submit, open }, target));
      this.open();
    } finally {
      for (const [name, size] of target) {
        const held = memory.sizes.get(name) ?? 0;
        sizes.set(name, held === wordsOf(size) ? size : held);
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
    const { plans } = this.parts.bound;
    if (this.plans.has(name) && !plans.has(name)) {
      throw new EdgewiseError("device.plan", `Plan ${shorten(name)} has to be prepared first.`);
    }
    return common.findPlan(this.program, plans, name, k);
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
