/** Devices and programs for tests, and a count of what a driver is really asked to do. */

import { probe } from "../../device/adapter.ts";
import type { LoadedProgram } from "../../device/base.ts";
import { type Gpu, openGpu } from "../../device/gpu.ts";
import { loadProgram, type ProgramSource } from "../../device/webgpu.ts";
import { MANIFEST, PROGRAM, plans, SHADERS, WEIGHT } from "./bundle.ts";
import { lavapipe } from "./lavapipe.ts";

export const PAGES = new Map([["pages", 4]]);

/** A device of its own: tests lose theirs. */
export async function openDevice(): Promise<Gpu> {
  const { report, adapter } = await probe(lavapipe());
  if (!adapter) throw new Error(`no lavapipe: ${report.reason}; run tools/ensure_packages.sh`);
  return openGpu(adapter, report);
}

/** What `loadProgram` takes, with something else in it. */
export function source(other: Partial<ProgramSource> = {}): ProgramSource {
  return {
    manifest: MANIFEST,
    program: PROGRAM,
    plans: plans(),
    shaders: SHADERS,
    loadSymbols: PAGES,
    ...other,
  };
}

/** The small program with its weight. */
export async function loadSmall(gpu: Gpu): Promise<LoadedProgram> {
  const program = await loadProgram(gpu, source());
  program.upload("weight", 0, new Uint8Array(new Float32Array(WEIGHT).buffer));
  return program;
}

/** The `step` buffer's first fields. */
export function step(n: number, b = 1, r = 1, t = 1): Int32Array {
  return new Int32Array([n, b, r, t]);
}

const MAKING = [
  "createBuffer",
  "createBindGroup",
  "createBindGroupLayout",
  "createPipelineLayout",
  "createShaderModule",
  "createComputePipeline",
  "createComputePipelineAsync",
  "createQuerySet",
] as const;

export interface Meter {
  /** Things made of any kind, but for encoders. */
  readonly made: Readonly<Record<(typeof MAKING)[number], number>>;
  readonly submits: number;
  readonly passes: number;
  readonly live: ReadonlySet<GPUBuffer>;
  total(): number;
}

/** Counts at the driver's own objects from now on, so that our counters are not asked about ourselves. */
export function meter(gpu: Gpu): Meter {
  const { device } = gpu;
  const counts = new Map<string, number>();
  const live = new Set<GPUBuffer>();
  const count = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const name of [...MAKING, "createCommandEncoder"] as const) {
    watch(device, name, (result) => {
      count(name);
      if (name === "createBuffer") follow(result as GPUBuffer, live);
      if (name === "createCommandEncoder") {
        watch(result as GPUCommandEncoder, "beginComputePass", () => count("passes"));
      }
    });
  }
  watch(device.queue, "submit", () => count("submits"));
  const of = (name: string) => counts.get(name) ?? 0;
  return {
    get made() {
      return Object.fromEntries(MAKING.map((name) => [name, of(name)])) as Meter["made"];
    },
    get submits() {
      return of("submits");
    },
    get passes() {
      return of("passes");
    },
    live,
    total: () => MAKING.reduce((sum, name) => sum + of(name), 0),
  };
}

function follow(buffer: GPUBuffer, live: Set<GPUBuffer>): void {
  live.add(buffer);
  watch(buffer, "destroy", () => live.delete(buffer));
}

/** Hear of every call of a method, with what it returned. */
export function watch<T extends object>(
  target: T,
  name: keyof T & string,
  heard: (result: unknown) => void,
): void {
  const original = target[name];
  if (typeof original !== "function") throw new Error(`${name} is no method`);
  Object.defineProperty(target, name, {
    configurable: true,
    value: (...args: unknown[]) => {
      const result: unknown = original.apply(target, args);
      heard(result);
      return result;
    },
  });
}
