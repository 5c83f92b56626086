/** Moving data from a GPU's buffers to the host. */

import { EdgewiseError } from "../errors.ts";
import type { Counters, Elements } from "./base.ts";
import type { Gpu } from "./gpu.ts";

const TYPES: ReadonlyMap<string, (data: ArrayBuffer) => Elements> = new Map<
  string,
  (data: ArrayBuffer) => Elements
>([
  ["float32", (data) => new Float32Array(data)],
  ["int32", (data) => new Int32Array(data)],
  ["uint32", (data) => new Uint32Array(data)],
  ["float16", (data) => new Uint16Array(data)],
]);

/** Bytes as elements of a dtype; of types that no buffer of ours has, as bytes. */
export function elements(dtype: string, data: ArrayBuffer): Elements {
  return TYPES.get(dtype)?.(data) ?? new Uint8Array(data);
}

/** A piece of a buffer to copy: name for people, source, first byte, bytes. */
export interface Wanted {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/**
 * Buffers that the GPU copies to and the host maps, in turn: while one is read, the next run may
 * fill another. One is made anew only where all are busy or too small.
 */
export class Landings {
  private readonly gpu: Gpu;
  private readonly counters: Counters;
  private readonly idle: GPUBuffer[] = [];
  private readonly all = new Set<GPUBuffer>();

  constructor(gpu: Gpu, counters: Counters, sizes: readonly number[]) {
    this.gpu = gpu;
    this.counters = counters;
    for (const size of sizes) this.idle.push(this.make(size));
  }

  /**
   * Encode copies of several pieces; what it returns, called once the encoder has been submitted,
   * brings their bytes.
   */
  take(
    encoder: GPUCommandEncoder,
    wanted: readonly Wanted[],
  ): () => Promise<readonly ArrayBuffer[]> {
    let size = 0;
    const places = wanted.map((piece) => {
      const place = size;
      size += Math.ceil(piece.size / 8) * 8;
      return place;
    });
    const landing = this.free(size);
    wanted.forEach(({ buffer, offset, size: bytes }, i) => {
      const padded = Math.ceil(bytes / 4) * 4;
      encoder.copyBufferToBuffer(buffer, offset, landing, places[i] ?? 0, padded);
    });
    return async () => {
      this.counters.readbacks += 1;
      try {
        await this.gpu.race(landing.mapAsync(GPUMapMode.READ, 0, size));
      } catch (error) {
        this.all.delete(landing);
        landing.destroy();
        throw EdgewiseError.from(error, "device.read", "Reading back from the GPU failed");
      }
      const mapped = landing.getMappedRange(0, size);
      const data = wanted.map((piece, i) => {
        const place = places[i] ?? 0;
        return mapped.slice(place, place + piece.size);
      });
      landing.unmap();
      if (this.all.has(landing)) this.idle.push(landing);
      return data;
    };
  }

  destroy(): void {
    for (const landing of this.all) landing.destroy();
    this.all.clear();
    this.idle.length = 0;
  }

  private free(size: number): GPUBuffer {
    const index = this.idle.findIndex((landing) => landing.size >= size);
    const [found] = index < 0 ? [] : this.idle.splice(index, 1);
    return found ?? this.make(2 ** Math.ceil(Math.log2(Math.max(size, 8))));
  }

  private make(size: number): GPUBuffer {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const made = this.gpu.device.createBuffer({
      size: Math.max(Math.ceil(size / 8) * 8, 8),
      usage,
    });
    this.counters.buffers += 1;
    this.all.add(made);
    return made;
  }
}
