/** A program's memory on a GPU, all of it taken at once, before any weight is fetched. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { Plan, PlanBuffer, Role } from "../format/plan.ts";
import type { Counters } from "./base.ts";
import { type Gpu, scoped } from "./gpu.ts";

const MIB = 1 << 20;

/** What every kernel has bound after its buffers: its grid is as launched, not folded. */
export const LAST_UNIFORM = new Uint32Array(4).fill(0xffff_ffff);
export const LAST_UNIFORM_BYTES = LAST_UNIFORM.byteLength;

/** The buffers of a program by name, zeroed; sizes are rounded up to 4 bytes. */
export interface Buffers {
  readonly sizes: ReadonlyMap<string, number>;
  readonly last: GPUBuffer;
  get(name: string): GPUBuffer;
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
  const rounded = new Map([...sizes].map(([name, size]) => [name, Math.ceil(size / 4) * 4]));
  const most = Math.min(report.limits.maxBufferSize, report.limits.maxStorageBufferBindingSize);
  for (const [name, size] of rounded) {
    if (size > most) {
      const state = buffers.get(name)?.role === "state";
      throw new EdgewiseError(
        "device.memory",
        `The buffer ${shorten(name)} takes ${size} bytes; ${report.name} allows ${most}.`,
        state ? "Choose a smaller context." : "Choose another device, or a smaller model.",
      );
    }
  }
  const made = new Map<string, GPUBuffer>();
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const [last, reported] = scoped(gpu, () => {
    for (const [label, size] of rounded)
      made.set(label, device.createBuffer({ label, size, usage }));
    const uniform = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const last = device.createBuffer({ size: LAST_UNIFORM_BYTES, usage: uniform });
    device.queue.writeBuffer(last, 0, LAST_UNIFORM);
    return last;
  });
  counters.buffers += made.size + 1;
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
  return {
    sizes: rounded,
    last,
    get(name) {
      const buffer = made.get(name);
      if (buffer) return buffer;
      throw new EdgewiseError("device.buffer", `${shorten(name)} is no buffer of this program.`);
    },
    destroy,
  };
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
