import { describe, expect, it } from "vitest";
import { timed } from "../../device/timing.ts";
import { goldenManifest, goldenPlan, goldenProgram } from "../format/goldens.ts";

describe("a kernel to be timed", () => {
  const plan = goldenPlan(goldenProgram(goldenManifest()).plans.get("decode") ?? "");

  it("knows which argument says how many rows there are, so that it has one to work on", () => {
    const linears = plan.steps.filter(({ kernel }) => kernel.startsWith("matvec"));
    expect(linears.length).toBeGreaterThan(0);
    for (const step of linears) {
      const kernel = plan.kernels.get(step.kernel);
      if (!kernel) throw new Error(step.kernel);
      const job = timed(plan, step, kernel, "");
      expect(step.bindings[job.step]?.buffer).toBe("step");
      expect(job.sizes).toHaveLength(kernel.args.length);
      expect(Math.min(...job.sizes, ...job.grid)).toBeGreaterThan(0);
    }
  });
});
