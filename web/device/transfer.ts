/** Moving data from a GPU's buffers to the host. */

import { EdgewiseError } from "../errors.ts";
import type { Counters, Elements } from "./base.ts";
import { type Gpu, scoped } from "./gpu.ts";

/** Landing buffers up to this many bytes are kept for the next readback. */
const MAX_KEPT = 1 << 20;

const TYPES: ReadonlyMap<string, (data: ArrayBuffer) => Elements> = new Map<
  string,
  (data: ArrayBuffer) => Elements
>([
  ["float32", (data) => new Float32Array(data)],
  ["int32", (data) => new Int32Array(data)],
  ["uint32", (data) => new Uint32Array(data)],
  ["float16", (data) => new Uint16Array(data)],
]);

/** Bytes as elements of a dtype; of int8 and of types that no buffer of ours has, as bytes. */
export function elements(dtype: string, data: ArrayBuffer): Elements {
  return TYPES.get(dtype)?.(data) ?? new Uint8Array(data);
}

/** A piece of a buffer, in bytes. */
export interface Piece {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** A copy under way: call it once its encoder has been submitted, for the bytes of each piece. */
export type Arrival = () => Promise<readonly ArrayBuffer[]>;

/**
 * Buffers that the GPU copies to and the host maps, in turn: while one is read, the next run may
 * fill another. One is made anew only where all are busy or too small.
 */
export interface Landings {
  take(encoder: GPUCommandEncoder, pieces: readonly Piece[]): Arrival;
  destroy(): void;
}

/** @param sizes bytes of those that are made at once. */
export function makeLandings(gpu: Gpu, counters: Counters, sizes: readonly number[]): Landings {
  const idle: GPUBuffer[] = [];
  const all = new Set<GPUBuffer>();
  const make = (size: number): GPUBuffer => {
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const made = gpu.device.createBuffer({ size: Math.max(roundUp(size, 8), 8), usage });
    counters.buffers += 1;
    all.add(made);
    return made;
  };
  const free = (size: number): GPUBuffer => {
    const at = idle.findIndex((landing) => landing.size >= size);
    const [found] = at < 0 ? [] : idle.splice(at, 1);
    return found ?? make(size > MAX_KEPT ? size : 2 ** Math.ceil(Math.log2(Math.max(size, 8))));
  };
  const drop = (landing: GPUBuffer) => {
    all.delete(landing);
    landing.destroy();
  };
  const fetch = async (landing: GPUBuffer, size: number, places: readonly Place[]) => {
    counters.readbacks += 1;
    try {
      await gpu.race(landing.mapAsync(GPUMapMode.READ, 0, size), "work");
    } catch (error) {
      drop(landing);
      throw EdgewiseError.from(error, "device.read", "Reading back from the GPU failed");
    }
    const mapped = landing.getMappedRange(0, size);
    const data = places.map(({ start, bytes }) => mapped.slice(start, start + bytes));
    landing.unmap();
    if (landing.size > MAX_KEPT) drop(landing);
    else if (all.has(landing)) idle.push(landing);
    return data;
  };
  for (const size of sizes) idle.push(make(size));
  return {
    take(encoder, pieces) {
      let size = 0;
      const copies = pieces.map(({ buffer, offset, size: bytes }) => {
        // Copies begin and end at words; pieces need not.
        const first = offset - (offset % 4);
        const copied = roundUp(offset + bytes, 4) - first;
        const copy = { buffer, first, copied, place: size, start: size + offset - first, bytes };
        size += roundUp(copied, 8);
        return copy;
      });
      const landing = free(size);
      for (const { buffer, first, copied, place } of copies) {
        encoder.copyBufferToBuffer(buffer, first, landing, place, copied);
      }
      return () => fetch(landing, size, copies);
    },
    destroy() {
      for (const landing of all) landing.destroy();
      all.clear();
      idle.length = 0;
    },
  };
}

interface Place {
  readonly start: number;
  readonly bytes: number;
}

/**
 * Read pieces of any size, by a submission of its own, once all that was submitted is done. The
 * device survives where there is no room for them.
 *
 * @throws EdgewiseError `device.read`, `device.lost`.
 */
export async function fetchPieces(
  gpu: Gpu,
  landings: Landings,
  pieces: readonly Piece[],
  submit: (encoder: GPUCommandEncoder) => void,
): Promise<readonly ArrayBuffer[]> {
  const [arriving, reported] = scoped(gpu, () => {
    const encoder = gpu.device.createCommandEncoder();
    const arrived = landings.take(encoder, pieces);
    submit(encoder);
    return arrived();
  });
  arriving.catch(() => {}); // what the scope says of it comes first
  const failed = await reported;
  if (failed) {
    const bytes = pieces.reduce((sum, { size }) => sum + size, 0);
    throw new EdgewiseError(
      "device.read",
      `Reading ${bytes} bytes back from the GPU failed: ${failed.message}`,
      "Close other tabs that use the GPU.",
    );
  }
  return arriving;
}

/** As `fetchPieces`, of one. */
export async function fetchPiece(
  gpu: Gpu,
  landings: Landings,
  piece: Piece,
  submit: (encoder: GPUCommandEncoder) => void,
): Promise<ArrayBuffer> {
  const [data] = await fetchPieces(gpu, landings, [piece], submit);
  return data ?? new ArrayBuffer(0);
}

function roundUp(size: number, step: number): number {
  return Math.ceil(size / step) * step;
}
