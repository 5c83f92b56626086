/** How long launches take where they are, between the others of their plan. */
import type { LoadedProgram } from "../device/base.ts";

/** Browsers round timestamps, some to 0.1 ms: only a mean over many launches says anything. */
const ROUNDS = 5;

/**
 * Mean nanoseconds of one launch of each kernel, at the rows that `step` held last.
 *
 * Empty where the adapter has no timestamps. What the plans compute is of no use afterwards.
 */
export async function timeKernels(program: LoadedProgram): Promise<ReadonlyMap<string, number>> {
  const spent = new Map<string, { ns: number; launches: number }>();
  for (const plan of program.plans.keys()) {
    for (let round = 0; round < ROUNDS; round++) {
      for (const { kernel, ns } of (await program.time(plan)) ?? []) {
        const sum = spent.get(kernel) ?? { ns: 0, launches: 0 };
        spent.set(kernel, { ns: sum.ns + Math.max(ns, 0), launches: sum.launches + 1 });
      }
    }
  }
  return new Map([...spent].map(([kernel, { ns, launches }]) => [kernel, ns / launches]));
}
