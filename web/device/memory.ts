/** A program's memory on a GPU, all of it taken at once, before any weight is fetched. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { Plan, PlanBuffer, Role } from "../format/plan.ts";
import type { Counters } from "./base.ts";
import { type Gpu, scoped } from "./gpu.ts";

const MIB = 1 << 20;

/** What every kernel has bound after its buffers: its grid is as launched, not folded. */
export const LAST_UNIFORM = new Uint32Array(4).fill(0xffff_ffff);
export const LAST_UNIFORM_BYTES = LAST_UNIFORM.byteLength;

/** What a program's buffers are for: kernels, copies, and larger ones that take their place. */
export function bufferUsage(): GPUBufferUsageFlags {
  return GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
}

/** A buffer's size as it is allocated: whole words. */
export function wordsOf(bytes: number): number {
  return Math.ceil(bytes / 4) * 4;
}

/** The buffers of a program by name, zeroed; sizes are rounded up to 4 bytes. */
export interface Buffers {
  readonly sizes: ReadonlyMap<string, number>;
  readonly last: GPUBuffer;
  get(name: string): GPUBuffer;
  /** Put another in the place of the one called so, which is returned and still has its memory. */
  replace(name: string, buffer: GPUBuffer): GPUBuffer;
  destroy(): void;
}

/** Every buffer that a program's plans declare, by name. */
export function declared(plans: Iterable<Plan>): Map<string, PlanBuffer> {
  const found = new Map<string, PlanBuffer>();
  for (const plan of plans) for (const buffer of plan.buffers) found.set(buffer.name, buffer);
  return found;
}

/**
 * Allocate all buffers of a program, under scopes that hear of it where there is no room.
 *
 * @param sizes bytes of each, see `bufferSizes`.
 * @throws EdgewiseError `device.memory` for one beyond the adapter's limits, or where the GPU does not
 *   hold them all; nothing stays allocated then.
 */
export async function allocate(
  gpu: Gpu,
  sizes: ReadonlyMap<string, number>,
  buffers: ReadonlyMap<string, PlanBuffer>,
  counters: Counters,
): Promise<Buffers> {
  const { device, report } = gpu;
  const rounded = new Map([...sizes].map(([name, size]) => [name, wordsOf(size)]));
  for (const [name, size] of rounded) checkSize(gpu, name, size, buffers.get(name)?.role);
  const made = new Map<string, GPUBuffer>();
  const usage = bufferUsage();
  const [last, reported] = scoped(gpu, () => {
    for (const [label, size] of rounded)
      made.set(label, device.createBuffer({ label, size, usage }));
    const uniform = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const last = device.createBuffer({ size: LAST_UNIFORM_BYTES, usage: uniform });
    device.queue.writeBuffer(last, 0, LAST_UNIFORM);
    return last;
  });
  counters.buffers += made.size + 1;
  counters.bytes = LAST_UNIFORM_BYTES + [...rounded.values()].reduce((a, b) => a + b, 0);
  counters.peakBytes = counters.bytes;
  const destroy = () => {
    for (const buffer of made.values()) buffer.destroy();
    last.destroy();
  };
  try {
    const full = await reported;
    if (full) {
      const total = [...rounded.values()].reduce((a, b) => a + b, 0);
      throw new EdgewiseError(
        "device.memory",
        `${report.name} has no room for the program's ${Math.ceil(total / MIB)} MiB: ${full.message}`,
        "Choose a smaller context, a smaller model or a smaller quantization, or close other tabs.",
      );
    }
  } catch (error) {
    destroy();
    throw error;
  }
  const get = (name: string): GPUBuffer => {
    const buffer = made.get(name);
    if (buffer) return buffer;
    throw new EdgewiseError("device.buffer", `${shorten(name)} is no buffer of this program.`);
  };
  return {
    sizes: rounded,
    last,
    get,
    replace(name, buffer) {
      const before = get(name);
      made.set(name, buffer);
      rounded.set(name, buffer.size);
      return before;
    },
    destroy,
  };
}

/** @throws EdgewiseError `device.memory` for a buffer beyond what the adapter allows. */
export function checkSize(
  { report }: Gpu,
  name: string,
  size: number,
  role: Role | undefined,
): void {
  const most = Math.min(report.limits.maxBufferSize, report.limits.maxStorageBufferBindingSize);
  if (size <= most) return;
  throw new EdgewiseError(
    "device.memory",
    `The buffer ${shorten(name)} takes ${size} bytes; ${report.name} allows ${most}.`,
    role === "state" ? "Choose a smaller context." : "Choose another device, or a smaller model.",
  );
}

/** Bytes per role; a buffer that several plans name counts once. */
export function countBytes(
  sizes: ReadonlyMap<string, number>,
  buffers: ReadonlyMap<string, PlanBuffer>,
): Record<Role, number> {
  const total = { param: 0, state: 0, input: 0, output: 0, scratch: 0 };
  for (const [name, { role }] of buffers) total[role] += sizes.get(name) ?? 0;
  return total;
}
