/** The kernel in which a plan spends most: it stands for the plan where only one is timed. */

import { evaluate } from "../format/expr.ts";
import type { Plan, Step } from "../format/plan.ts";

/** A launch of that kernel, and its part of what all launches spend: 0 where nothing is known. */
export interface HotLaunch {
  readonly step: Step;
  readonly share: number;
}

/**
 * The first launch of the kernel in which most is spent, all its launches together; null for a plan
 * without any.
 *
 * @param rows of one sequence, which has seen nothing before.
 * @param by what launches are told apart by.
 */
export function hotLaunch(plan: Plan, rows: number, by: "bytes" | "flops"): HotLaunch | null {
  const values = new Map(Object.entries({ n: rows, b: 1, r: 1, t: rows, kv: 0, pages: 1 }));
  const cost = (kernel: string) => evaluate(plan.kernels.get(kernel)?.cost?.[by] ?? 0, values);
  const spent = new Map<string, number>();
  let all = 0;
  for (const { kernel } of plan.steps) {
    const each = cost(kernel);
    spent.set(kernel, (spent.get(kernel) ?? 0) + each);
    all += each;
  }
  const [first, ...others] = plan.steps;
  if (!first) return null;
  const spentBy = ({ kernel }: Step) => spent.get(kernel) ?? 0;
  const step = others.reduce((hot, one) => (spentBy(one) > spentBy(hot) ? one : hot), first);
  return { step, share: all > 0 ? cost(step.kernel) / all : 0 };
}
