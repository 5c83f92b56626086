/**
 * Making a program's state larger or smaller while it runs: buffers are replaced by others, which begin
 * with what was in them.
 *
 * The copies are made on the device, in the order of what is submitted: work handed over before
 * writes to the old buffer, whose copy has that then; work handed over afterwards is bound to the
 * new one. So nothing has to wait, and no bit changes.
 */

import { EdgewiseError } from "../errors.ts";
import type { Counters } from "./base.ts";
import { type Gpu, scoped } from "./gpu.ts";
import { type Buffers, bufferUsage, checkSize, wordsOf } from "./memory.ts";

/**
 * Buffers are replaced in so many rounds, each of which ends when its copies are made: beside the
 * new memory that of a round's old buffers is held at most, about a quarter of the old.
 */
const ROUNDS = 4;

/** What is replaced, and what the rest has to do with it. */
export interface Resizing {
  readonly gpu: Gpu;
  readonly memory: Buffers;
  readonly counters: Counters;
  /** Bind what was bound to these buffers to those that have their names now. */
  readonly rebind: (names: ReadonlySet<string>) => void;
  readonly submit: (encoder: GPUCommandEncoder) => void;
  /** @throws EdgewiseError where the program is closed, or its device is lost. */
  readonly open: () => void;
}

/**
 * Replace the buffers that are smaller than asked for.
 *
 * @param sizes bytes of each that there should be.
 * @throws EdgewiseError `device.memory` where there is no room, or for one beyond the adapter's
 *   limits: a few may be larger then, and all can be used as before; `device.lost`,
 *   `device.closed`.
 */
export async function growBuffers(
  resizing: Resizing,
  sizes: ReadonlyMap<string, number>,
): Promise<void> {
  const wanted = ofOtherSize(resizing, sizes, (size, now) => size > now);
  for (const [name, size] of wanted) checkSize(resizing.gpu, name, size, "state");
  await inRounds(resizing, wanted);
}

/**
 * Replace the buffers that are larger than asked for: what is behind is gone.
 *
 * @param sizes bytes of each that there should be.
 * @throws EdgewiseError `device.memory` where there is no room for those that take their place: the rest stays as large;
 *   `device.lost`, `device.closed`.
 */
export async function shrinkBuffers(
  resizing: Resizing,
  sizes: ReadonlyMap<string, number>,
): Promise<void> {
  await inRounds(
    resizing,
    ofOtherSize(resizing, sizes, (size, now) => size < now),
  );
}

type Sizes = readonly (readonly [name: string, bytes: number])[];

function ofOtherSize(
  { memory }: Resizing,
  sizes: ReadonlyMap<string, number>,
  isOther: (size: number, now: number) => boolean,
): Sizes {
  return [...sizes]
    .map(([name, size]) => [name, wordsOf(size)] as const)
    .filter(([name, size]) => isOther(size, memory.sizes.get(name) ?? 0));
}

async function inRounds(resizing: Resizing, wanted: Sizes): Promise<void> {
  const { gpu } = resizing;
  const share = Math.ceil(wanted.length / ROUNDS);
  for (let at = 0; at < wanted.length; at += share) {
    await replace(resizing, wanted.slice(at, at + share));
    await gpu.race(gpu.device.queue.onSubmittedWorkDone(), "work");
  }
}

async function replace(
  { gpu, memory, counters, rebind, submit, open }: Resizing,
  wanted: Sizes,
): Promise<void> {
  const { device, report } = gpu;
  const usage = bufferUsage();
  const [made, reported] = scoped(gpu, () =>
    wanted.map(([label, size]) => device.createBuffer({ label, size, usage })),
  );
  const bytes = wanted.reduce((sum, [, size]) => sum + size, 0);
  try {
    const full = await reported;
    open();
    if (full) {
      throw new EdgewiseError(
        "device.memory",
        `${report.name} has no room for another ${bytes} bytes of pages: ${full.message}`,
        "Close other tabs, or choose a smaller model.",
      );
    }
  } catch (error) {
    for (const buffer of made) buffer.destroy();
    throw error;
  }
  counters.buffers += made.length;
  counters.bytes += bytes;
  counters.peakBytes = Math.max(counters.peakBytes, counters.bytes);
  const encoder = device.createCommandEncoder();
  const before = made.map((buffer) => {
    const old = memory.replace(buffer.label, buffer);
    const bytes = Math.min(old.size, buffer.size);
    encoder.copyBufferToBuffer(old, 0, buffer, 0, bytes);
    counters.copies += 1;
    counters.copiedBytes += bytes;
    return old;
  });
  submit(encoder);
  rebind(new Set(made.map((buffer) => buffer.label)));
  for (const old of before) {
    counters.bytes -= old.size;
    old.destroy();
  }
}
