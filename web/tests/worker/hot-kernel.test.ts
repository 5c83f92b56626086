/** The kernel that stands for a plan is the one in which all its launches together spend most. */

import { expect, test } from "vitest";
import type { Kernel, Plan } from "../../format/plan.ts";
import { hotLaunch } from "../../worker/hot-kernel.ts";
import { goldenManifest, goldenPlans, goldenProgram } from "../format/goldens.ts";

const PROGRAM = goldenProgram(goldenManifest());
const PREFILL = [...goldenPlans(PROGRAM).values()].find(({ name }) => name.startsWith("prefill"));

/** The launches of a plan are these kernels; what each launch of one spends is given by its name. */
function planOf(launches: string, bytes: Readonly<Record<string, number>>): Plan {
  const [step] = PREFILL?.steps ?? [];
  const kernel = step && PREFILL?.kernels.get(step.kernel);
  if (!PREFILL || !step || !kernel) throw new Error("the golden program has no prefill");
  const costing = (name: string): Kernel => ({
    ...kernel,
    cost: { ...kernel.cost, flops: 1, bytes: bytes[name] ?? 0 },
  });
  return {
    ...PREFILL,
    steps: [...launches].map((name) => ({ ...step, kernel: name })),
    kernels: new Map([...launches].map((name) => [name, costing(name)])),
  };
}

test.each([
  ["abba", { a: 4, b: 1 }, "a", 0.4],
  ["abbbbb", { a: 4, b: 1 }, "b", 1 / 9],
  ["aab", { a: 1, b: 2 }, "a", 0.25],
  ["ab", {}, "a", 0],
])("of %s, where a launch spends %j, it is %s with %d of all", (launches, bytes, name, share) => {
  const hot = hotLaunch(planOf(launches, bytes), 1, "bytes");
  expect(hot?.step.kernel).toBe(name);
  expect(hot?.share).toBeCloseTo(share, 12);
});

test("of a plan without launches it is none", () => {
  expect(hotLaunch(planOf("", {}), 1, "bytes")).toBeNull();
});

test("of a real prefill it is a matrix, by what is computed", () => {
  if (!PREFILL) throw new Error("the golden program has no prefill");
  const hot = hotLaunch(PREFILL, 16, "flops");
  expect(hot?.step.kernel).toMatch(/^matmul_/);
  expect(hot?.share).toBeGreaterThan(0);
  expect(hot?.share).toBeLessThan(1);
});
