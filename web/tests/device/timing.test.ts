import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Gpu } from "../../device/gpu.ts";
import { type Timed, timed, timeKernel } from "../../device/timing.ts";
import type { Kernel } from "../../format/plan.ts";
import { goldenManifest, goldenPlan, goldenProgram } from "../format/goldens.ts";
import { meter, openDevice } from "./bench.ts";

const KERNEL: Kernel = {
  symbol: "spin",
  args: [
    { name: "step", dtype: "int32", shape: [8], access: "read", bytes: 32 },
    { name: "out", dtype: "int32", shape: [8], access: "write", bytes: 32 },
  ],
  cost: null,
};
/** Turns as often as there are rows, many times over: with none it ends at once. */
const CODE = `
@group(0) @binding(0) var<storage, read> step : array<i32>;
@group(0) @binding(1) var<storage, read_write> out : array<i32>;
@group(0) @binding(2) var<uniform> last : vec4<u32>;
@compute @workgroup_size(1) fn spin() {
  var sum = i32(last.x);
  for (var i = 0; i < step[0] * 200000; i++) { sum = sum * 3 + i; }
  out[0] = sum;
}`;
const JOB: Timed = {
  kernel: KERNEL,
  code: CODE,
  rows: 1,
  grid: [1, 1, 1],
  sizes: [32, 32],
  step: 0,
};

describe("a kernel to be timed", () => {
  const program = goldenProgram(goldenManifest());
  const plan = goldenPlan(program.plans.get("decode") ?? "");

  test("knows which argument says how many rows there are, so that it has one to work on", () => {
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

describe("timing on a device", () => {
  let gpu: Gpu;

  beforeAll(async () => {
    gpu = await openDevice();
  });
  afterAll(() => gpu?.close());

  test("tells a kernel that works from one that has nothing to do", async () => {
    const busy = await timeKernel(gpu, JOB);
    const idle = await timeKernel(gpu, { ...JOB, step: -1 });
    expect(busy).toBeGreaterThan(2 * idle);
  });

  test("refuses a kernel that does not compile and leaves the device alone", async () => {
    const broken = { ...JOB, code: CODE.replace("i32(last.x)", "nothing") };
    await expect(timeKernel(gpu, broken)).rejects.toMatchObject({ code: "device.kernel" });
    expect(await timeKernel(gpu, JOB)).toBeGreaterThan(0);
  });

  test("gives back all it made", async () => {
    const counts = meter(gpu);
    await timeKernel(gpu, JOB);
    expect(counts.made.createBuffer).toBeGreaterThan(3);
    expect(counts.live.size).toBe(0);
  });
});
