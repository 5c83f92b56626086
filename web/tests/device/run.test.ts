/** Results, and what a run costs. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LoadedProgram } from "../../device/base.ts";
import type { Gpu } from "../../device/gpu.ts";
import { loadProgram } from "../../device/webgpu.ts";
import { loadSmall, type Meter, meter, openDevice, source, step } from "./bench.ts";
import { ROWS, WEIGHT } from "./bundle.ts";

let gpu: Gpu;
let counts: Meter;
let program: LoadedProgram;

beforeEach(async () => {
  gpu = await openDevice();
  counts = meter(gpu);
  program = await loadSmall(gpu);
});
afterEach(() => {
  program.close();
  gpu.close();
});

const scaled = (rows: number) =>
  Array.from({ length: ROWS * 4 }, (_, i) => {
    const row = Math.floor(i / 4);
    return row < rows ? (WEIGHT[i % 4] ?? 0) * (row + 1) : 0;
  });

describe("a run", () => {
  test("computes what its plan says for as many rows as step has", async () => {
    program.write("step", step(3));
    const read = await program.run(["scale"], 1, ["x", "total"]);
    expect([...(read.get("x") ?? [])]).toEqual(scaled(3));
    expect([...(read.get("total") ?? [])]).toEqual([5]);
  });

  test("takes the rows that were written last, whole or from an offset on", async () => {
    program.write("step", step(9));
    void program.run(["scale"]);
    program.write("step", new Int32Array([12]));
    const read = await program.run(["scale"], 1, ["x"]);
    expect([...(read.get("x") ?? [])]).toEqual(scaled(12));
    program.write("step", new Int32Array([5]), 3);
    await expect(program.read("step")).resolves.toEqual(new Int32Array([12, 1, 1, 5, 0, 0, 0, 0]));
  });

  test.each([1, 8])("of k = %i is one submission with one pass, and makes nothing", async (k) => {
    program.write("step", step(2));
    await program.settled();
    const before = { made: counts.total(), submits: counts.submits, passes: counts.passes };
    const counted = { ...program.counters };
    const read = await program.run(["scale", "tick"], k, ["count"]);
    expect([...(read.get("count") ?? [])]).toEqual([2 * k, 4 * k]);
    expect(counts.total()).toBe(before.made);
    expect(counts.submits).toBe(before.submits + 1);
    expect(counts.passes).toBe(before.passes + 1);
    expect(program.counters).toEqual({
      ...counted,
      submits: counted.submits + 1,
      dispatches: counted.dispatches + 3 + 2 * k,
      readbacks: counted.readbacks + 1,
    });
  });

  test("is handed over before it returns: writes after it do not change it", async () => {
    program.write("step", step(1));
    const first = program.run(["tick"], 4, ["count"]);
    program.write("step", step(7));
    const second = program.run(["tick"], 2, ["count"]);
    program.write("count", new Int32Array([100, 100]));
    const third = program.run(["tick"], 1, ["count"]);
    const found = (await Promise.all([first, second, third])).map((read) => [
      ...(read.get("count") ?? []),
    ]);
    expect(found).toEqual([
      [8, 8],
      [12, 36],
      [102, 114],
    ]);
  });

  test("of nothing is a submission without a pass, and nothing at all once the program is closed", async () => {
    program.write("step", step(1));
    await program.settled();
    const before = { made: counts.total(), submits: counts.submits, passes: counts.passes };
    const submits = program.counters.submits;
    const pending = program.run(["tick"], 1, ["count"]);
    program.nudge();
    expect([...((await pending).get("count") ?? [])]).toEqual([2, 2]);
    expect(counts.total()).toBe(before.made);
    expect(counts.submits).toBe(before.submits + 2);
    expect(counts.passes).toBe(before.passes + 1);
    expect(program.counters.submits).toBe(submits + 2);
    program.close();
    program.nudge();
    expect(counts.submits).toBe(before.submits + 2);
  });

  test("that reads nothing resolves at once", async () => {
    await expect(program.run(["scale"])).resolves.toEqual(new Map());
  });

  test("refuses plans and counts it does not know", async () => {
    const refused = (plans: string[], k?: number) =>
      expect(program.run(plans, k)).rejects.toMatchObject({ code: "device.plan" });
    await refused(["nothing"]);
    await refused(["scale"], 2);
    await refused(["tick"], 9);
    await refused(["tick"], 0);
    await refused(["tick"], 1.5);
    await expect(program.run(["nothing"])).rejects.toThrow(
      'Program small has no plan "nothing"; it has scale, tick, both.',
    );
    expect(program.counters.submits).toBe(0);
  });

  test("takes a value of step beyond its symbol as the nearest it can be", async () => {
    program.write("step", step(1000));
    const read = await program.run(["scale"], 1, ["x"]);
    expect([...(read.get("x") ?? [])]).toEqual(scaled(ROWS));
  });
});

describe("landing buffers", () => {
  test("are used in turn: two readbacks under way need no third", async () => {
    program.write("step", step(1));
    await program.settled();
    const made = counts.total();
    for (let round = 0; round < 10; round++) {
      await Promise.all([
        program.run(["tick"], 1, ["count"]),
        program.run(["scale"], 1, ["total", "x"]),
      ]);
    }
    expect(counts.total()).toBe(made);
  });

  test("are made anew while all are busy, which is counted, and then kept", async () => {
    program.write("step", step(1));
    const buffers = program.counters.buffers;
    const burst = () =>
      Promise.all(Array.from({ length: 6 }, () => program.run(["tick"], 1, ["count"])));
    const found = (await burst()).map((read) => read.get("count")?.[0]);
    expect(found).toEqual([2, 4, 6, 8, 10, 12]);
    const more = program.counters.buffers - buffers;
    expect(more).toBeGreaterThan(0);
    await burst();
    expect(program.counters.buffers - buffers).toBe(more);
  });

  test("for whole large buffers are not kept", async () => {
    const large = await loadProgram(gpu, source({ loadSymbols: new Map([["pages", 1 << 16]]) }));
    const live = counts.live.size;
    const state = await large.read("state");
    expect(state).toHaveLength(16 << 16);
    expect(counts.live.size).toBe(live);
    large.close();
  });
});

describe("a plan for later", () => {
  test("is compiled and bound when it is asked for, once, and not before", async () => {
    const counts = meter(gpu);
    const loaded = await loadProgram(gpu, source({ later: new Set(["tick"]) }));
    const { pipelines } = loaded.counters;
    await expect(loaded.run(["tick"])).rejects.toMatchObject({
      code: "device.plan",
      message: expect.stringContaining("prepared"),
    });
    await Promise.all([loaded.prepare(["tick"]), loaded.prepare(["scale", "tick"])]);
    const made = counts.total();
    await loaded.prepare(["tick"]);
    expect(counts.total()).toBe(made);
    loaded.write("step", step(2));
    const read = await loaded.run(["tick"], 3, ["count"]);
    expect([...(read.get("count") ?? [])]).toEqual([6, 12]);
    expect(loaded.counters.pipelines).toBeGreaterThanOrEqual(pipelines);
    await expect(loaded.prepare(["none"])).rejects.toMatchObject({ code: "device.plan" });
    loaded.close();
    await expect(loaded.prepare(["tick"])).rejects.toMatchObject({ code: "device.closed" });
  });
});

describe("weights", () => {
  test("are on their way while kernels are compiled, into memory that is there already", async () => {
    const order: string[] = [];
    const filled = await loadProgram(
      gpu,
      source({
        fill: async (into) => {
          order.push("weights");
          into.upload("weight", 0, new Uint8Array(new Float32Array(WEIGHT).buffer));
        },
        onProgress: (done, total) => {
          if (done === total) order.push("kernels");
        },
      }),
    );
    expect(order).toEqual(["weights", "kernels"]);
    filled.write("step", step(3));
    const read = await filled.run(["scale"], 1, ["x"]);
    expect([...(read.get("x") ?? [])]).toEqual(scaled(3));
    filled.close();
  });

  test("that cannot be had end it, and so does a kernel while they are under way", async () => {
    const counts = meter(gpu);
    const refused = source({ fill: () => Promise.reject(new Error("offline")) });
    await expect(loadProgram(gpu, refused)).rejects.toThrow("offline");
    let ended = false;
    const fill = (_: LoadedProgram, ending: AbortSignal) =>
      new Promise<void>((_resolve, reject) => {
        ending.addEventListener("abort", () => {
          ended = true;
          reject(new Error("given up"));
        });
      });
    const broken = new Map([...source().shaders].map(([path]) => [path, "fn nonsense"]));
    await expect(loadProgram(gpu, source({ fill, shaders: broken }))).rejects.toMatchObject({
      code: "device.kernel",
    });
    expect(ended).toBe(true);
    expect(counts.live.size).toBe(0);
  });
});

describe("kernels", () => {
  test("of one text are compiled once per device, whatever plans and programs use them", async () => {
    expect(program.counters.pipelines).toBe(4);
    expect(counts.made.createComputePipelineAsync).toBe(4);
    const second = await loadProgram(gpu, source());
    expect(second.counters.pipelines).toBe(0);
    expect(counts.made.createComputePipelineAsync).toBe(4);
    second.close();
  });

  test("of equal bindings share a bind group", () => {
    expect(program.counters.bindGroups).toBe(4);
  });

  test("are told of while they are compiled", async () => {
    const heard: (readonly [number, number])[] = [];
    const second = await loadProgram(
      gpu,
      source({ onProgress: (done, total) => heard.push([done, total]) }),
    );
    expect(heard).toEqual([0, 1, 2, 3, 4, 5, 6].map((done) => [done, 6]));
    second.close();
  });
});

test("closing gives all memory back", async () => {
  program.write("step", step(1));
  await program.run(["tick"], 1, ["count"]);
  await program.read("state");
  expect(counts.live.size).toBe(program.counters.buffers);
  const second = await loadSmall(gpu);
  second.close();
  second.close();
  expect(counts.live.size).toBe(program.counters.buffers);
  program.close();
  expect(counts.live.size).toBe(0);
});
