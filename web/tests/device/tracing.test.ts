/** Running a plan launch by launch. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { LoadedProgram, TracedStep } from "../../device/base.ts";
import { type Gpu, openGpu } from "../../device/gpu.ts";
import { loadSmall, type Meter, meter, openDevice, step } from "./bench.ts";
import { ROWS } from "./bundle.ts";
import { lavapipe } from "./lavapipe.ts";

let gpu: Gpu;
let counts: Meter;
let program: LoadedProgram;

beforeEach(async () => {
  gpu = await openDevice();
  counts = meter(gpu);
  program = await loadSmall(gpu);
  program.write("step", step(2));
});
afterEach(() => {
  program.close();
  gpu.close();
});

async function all(steps: AsyncIterable<TracedStep>): Promise<TracedStep[]> {
  const found: TracedStep[] = [];
  for await (const step of steps) found.push(step);
  return found;
}

test("a trace shows what every launch wrote, scratch too, but for state", async () => {
  const traced = await all(program.trace("scale"));
  expect(traced.map(({ label, kernel }) => [label, kernel])).toEqual([
    ["all.scale", "scale"],
    ["all.sum", "sum"],
    ["all.keep", "keep"],
  ]);
  const [scale, sum, keep] = traced.map(({ outputs }) => outputs);
  expect(scale).toMatchObject([{ buffer: "x", dtype: "float32", shape: [ROWS, 4] }]);
  expect([...(scale?.[0]?.data ?? [])].slice(0, 9)).toEqual([0.5, 1, 1.5, 2, 1, 2, 3, 4, 0]);
  expect(sum).toEqual([
    { buffer: "sum", dtype: "float32", shape: [1], data: new Float32Array([5]) },
  ]);
  expect(keep).toEqual([
    { buffer: "total", dtype: "float32", shape: [1], data: new Float32Array([5]) },
  ]);
  const [tick] = await all(program.trace("tick"));
  expect(tick?.outputs.map(({ buffer }) => buffer)).toEqual(["count"]);
});

test("a trace launches when drawn: the program can be looked at in between", async () => {
  const steps = program.trace("tick")[Symbol.asyncIterator]();
  await steps.next();
  await expect(program.read("count")).resolves.toEqual(new Int32Array([1, 2]));
  await steps.next();
  await expect(program.read("count")).resolves.toEqual(new Int32Array([2, 4]));
  await expect(steps.next()).resolves.toMatchObject({ done: true });
});

test("a timing runs the plan once, and has nanoseconds for every launch", async () => {
  const live = counts.live.size;
  const times = await program.time("tick");
  expect(times?.map(({ label, kernel }) => [label, kernel])).toEqual([
    ["all.tick", "tick"],
    ["all.tick", "tick"],
  ]);
  for (const { ns } of times ?? []) {
    expect(ns).toBeGreaterThanOrEqual(0);
    expect(ns).toBeLessThan(1e9);
  }
  await expect(program.read("count")).resolves.toEqual(new Int32Array([2, 4]));
  expect(counts.live.size).toBe(live);
});

test("there is no timing where the adapter has no timestamps", async () => {
  const adapter = await lavapipe().requestAdapter();
  if (!adapter) throw new Error("no lavapipe");
  const untimed = new Proxy(adapter, {
    get(target, name) {
      if (name === "features") return new Set(["subgroups"]);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const other = await openGpu(untimed, gpu.report);
  const loaded = await loadSmall(other);
  await expect(loaded.time("tick")).resolves.toBeNull();
  loaded.close();
  other.close();
});

test("of unknown plans there is neither", async () => {
  const unknown = { code: "device.plan" };
  await expect(all(program.trace("nothing"))).rejects.toMatchObject(unknown);
  await expect(program.time("nothing")).rejects.toMatchObject(unknown);
});
