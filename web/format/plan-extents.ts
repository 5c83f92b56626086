/** Whether each launch of a plan stays inside its buffers, once sizes are known. */

import { shorten } from "../errors.ts";
import { bounds, type Range } from "./expr.ts";
import { DTYPES, type KernelArg, type Plan, type PlanBuffer, type Step } from "./plan.ts";
import { fail, inside, type Ranges, rangesOf } from "./plan-errors.ts";

/** The bytes of a buffer that an argument is given. */
interface Extent {
  readonly start: number;
  readonly end: number;
  readonly arg: KernelArg;
}

/**
 * Check that shapes fit their buffers and arguments their bindings at these load symbols.
 *
 * @throws EdgewiseError `plan.bytes`, `plan.extent` or `plan.alias`.
 */
export function checkExtents(plan: Plan, load: ReadonlyMap<string, number>): void {
  const ranges = new Map([...rangesOf(plan, plan.symbols), ...exactly(load)]);
  const sizes = new Map(
    plan.buffers.map((buffer) => [buffer.name, bufferSize(plan, buffer, ranges)]),
  );
  const extents = new Map(
    [...plan.kernels].map(([name, kernel]) => [
      name,
      kernel.args.map((arg) => bounds(arg.bytes, ranges)[1]),
    ]),
  );
  plan.steps.forEach((step, index) => {
    stepExtents(plan, index, step, sizes, extents.get(step.kernel) ?? []);
  });
}

/** Two arguments of one buffer that overlap although one of them is written; null without such. */
function overlapping(extents: readonly Extent[]): readonly [Extent, Extent] | null {
  let reach: Extent | null = null;
  let written: Extent | null = null;
  for (const one of [...extents].sort((a, b) => a.start - b.start)) {
    const writes = one.arg.access !== "read";
    const other: Extent | null = writes ? reach : written;
    if (other && one.start < other.end) return [other, one];
    if (!reach || one.end > reach.end) reach = one;
    if (writes && (!written || one.end > written.end)) written = one;
  }
  return null;
}

/** Symbols that have one value each. */
export function exactly(values: ReadonlyMap<string, number>): Map<string, Range> {
  return new Map([...values].map(([name, value]) => [name, [value, value]]));
}

function bufferSize(plan: Plan, buffer: PlanBuffer, ranges: Ranges): number {
  const where = `buffer ${shorten(buffer.name)}`;
  const size = inside(plan, where, buffer.bytes, ranges)[0];
  let needed = DTYPES.get(buffer.dtype) ?? 0;
  for (const dim of buffer.shape) needed *= inside(plan, where, dim, ranges)[1];
  if (needed > size) {
    throw fail(plan, "bytes", where, `its shape takes ${needed} bytes, and 'bytes' is ${size}`);
  }
  return size;
}

function stepExtents(
  plan: Plan,
  index: number,
  step: Step,
  sizes: ReadonlyMap<string, number>,
  extents: readonly number[],
): void {
  const where = `step ${index} (${step.kernel})`;
  const args = plan.kernels.get(step.kernel)?.args ?? [];
  const taken = new Map<string, Extent[]>();
  args.forEach((arg, i) => {
    const { buffer, offset: start } = step.bindings[i] ?? { buffer: "", offset: 0 };
    const end = start + (extents[i] ?? 0);
    const size = sizes.get(buffer) ?? 0;
    if (end > size) {
      const message = `bytes ${start}..${end} reach past ${shorten(buffer)}, which has ${size}`;
      throw fail(plan, "extent", `${where}, argument ${shorten(arg.name)}`, message);
    }
    const there = taken.get(buffer) ?? [];
    taken.set(buffer, there);
    there.push({ start, end, arg });
  });
  for (const [buffer, extents] of taken) {
    const [one, other] = overlapping(extents) ?? [];
    if (!one || !other) continue;
    const both = `${shorten(one.arg.name)} and ${shorten(other.arg.name)}`;
    const message = `${both} overlap in ${shorten(buffer)}, and one of them is written`;
    throw fail(plan, "alias", where, message);
  }
}
