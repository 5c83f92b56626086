/** What a device and its programs refuse, before or instead of doing harm. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { probe } from "../../device/adapter.ts";
import type { LoadedProgram } from "../../device/base.ts";
import type { Gpu } from "../../device/gpu.ts";
import { loadProgram } from "../../device/webgpu.ts";
import { EdgewiseError } from "../../errors.ts";
import { loadSmall, type Meter, meter, openDevice, source, step } from "./bench.ts";
import { PROGRAM, SHADERS } from "./bundle.ts";
import { lavapipe } from "./lavapipe.ts";

let gpu: Gpu;
let counts: Meter;

beforeEach(async () => {
  gpu = await openDevice();
  counts = meter(gpu);
});
afterEach(() => gpu.close());

/** The device still does what it should, and nothing of a failed load is left. */
async function unharmed(): Promise<void> {
  expect(counts.live.size).toBe(0);
  const program = await loadSmall(gpu);
  program.write("step", step(2));
  const read = await program.run(["scale"], 1, ["total"]);
  expect([...(read.get("total") ?? [])]).toEqual([5]);
  program.close();
}

function withShader(path: string, code: string) {
  return source({ shaders: new Map([...SHADERS, [path, code]]) });
}

describe("loading", () => {
  test("refuses a kernel that does not parse, with what the compiler says and where", async () => {
    const loading = loadProgram(gpu, withShader("tick.wgsl", "fn tick_kernel() { nonsense }"));
    await expect(loading).rejects.toMatchObject({ code: "device.kernel" });
    await expect(loading).rejects.toThrow(/"tick" does not compile: line 1.*expected/s);
    await unharmed();
  });

  test("refuses a kernel without its entry point", async () => {
    const code = SHADERS.get("tick.wgsl")?.replace("fn tick_kernel", "fn other_kernel") ?? "";
    const loading = loadProgram(gpu, withShader("tick.wgsl", code));
    await expect(loading).rejects.toMatchObject({ code: "device.kernel" });
    await expect(loading).rejects.toThrow(/"tick" does not compile: .*tick_kernel/s);
    await unharmed();
  });

  test("refuses a kernel whose bindings are others than its plan's", async () => {
    const code = SHADERS.get("tick.wgsl")?.replace("<storage, read> x", "<storage, read_write> x");
    const loading = loadProgram(gpu, withShader("tick.wgsl", code ?? ""));
    await expect(loading).rejects.toMatchObject({ code: "device.kernel" });
    await unharmed();
  });

  test("stops compiling where one kernel does not compile", async () => {
    const names = Array.from({ length: 60 }, (_, i) => `k${i}`);
    const tick = source().plans.get("tick");
    const kernel = tick?.kernels.get("tick");
    if (!tick || !kernel) throw new Error("the plan has no kernel");
    const code = SHADERS.get("tick.wgsl") ?? "";
    const loading = loadProgram(
      gpu,
      source({
        program: {
          ...PROGRAM,
          shaders: new Map([...PROGRAM.shaders, ...names.map((n) => [n, n] as const)]),
        },
        plans: new Map([
          [
            "tick",
            {
              ...tick,
              kernels: new Map([["tick", kernel], ...names.map((n) => [n, kernel] as const)]),
            },
          ],
        ]),
        shaders: new Map([
          // The longest, which is begun first.
          ["tick.wgsl", `nonsense ${code}// of the longest text`],
          ...names.map((n, i) => [n, `${code}// ${i}`] as const),
        ]),
      }),
    );
    await expect(loading).rejects.toMatchObject({ code: "device.kernel" });
    const made = counts.made.createComputePipelineAsync;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(counts.made.createComputePipelineAsync).toBe(made);
    expect(made).toBeLessThan(20);
  });

  test("refuses a program without the text of a kernel", async () => {
    const loading = loadProgram(gpu, source({ shaders: new Map() }));
    await expect(loading).rejects.toMatchObject({ code: "bundle.shader" });
    expect(counts.live.size).toBe(0);
  });

  test("refuses a buffer beyond the adapter's limits by name, bytes and limit, and makes none", async () => {
    const most = gpu.report.limits.maxStorageBufferBindingSize;
    const pages = most / 64 + 1;
    const loading = loadProgram(gpu, source({ loadSymbols: new Map([["pages", pages]]) }));
    await expect(loading).rejects.toMatchObject({
      code: "device.memory",
      message: `The buffer "state" takes ${64 * pages} bytes; ${gpu.report.name} allows ${most}.`,
      remedy: "Choose a smaller context.",
    });
    expect(counts.made.createBuffer).toBe(0);
    await unharmed();
  });

  test("gives back what it took where the GPU has no room for the rest", async () => {
    // 3 GiB: more than lavapipe allocates at once, and less than its limits of buffers.
    const limits = { ...gpu.report.limits, maxStorageBufferBindingSize: 2 ** 32 - 1 };
    const loose = { ...gpu, report: { ...gpu.report, limits } };
    const loadSymbols = new Map([["pages", (3 << 20) * 16]]);
    await expect(loadProgram(loose, source({ loadSymbols }))).rejects.toMatchObject({
      code: "device.memory",
      message: expect.stringContaining("has no room for the program's 3073 MiB: "),
      remedy: expect.stringContaining("smaller context"),
    });
    await unharmed();
  });

  test("refuses load symbols out of range, and those that are missing", async () => {
    const load = (...symbols: [string, number][]) =>
      loadProgram(gpu, source({ loadSymbols: new Map(symbols) }));
    await expect(load(["pages", 0])).rejects.toMatchObject({ code: "plan.range" });
    await expect(load()).rejects.toMatchObject({ code: "plan.symbol" });
    expect(counts.live.size).toBe(0);
  });

  test("that is cancelled ends at once, without waiting for kernels", async () => {
    const cancel = new AbortController();
    const never = new Promise<GPUComputePipeline>(() => {});
    const compile = gpu.device.createComputePipelineAsync;
    Object.defineProperty(gpu.device, "createComputePipelineAsync", {
      configurable: true,
      value: () => never,
    });
    const loading = loadProgram(gpu, source({ signal: cancel.signal }));
    setTimeout(() => cancel.abort(), 20);
    await expect(loading).rejects.toMatchObject({ code: "load.aborted" });
    expect(counts.live.size).toBe(0);
    Object.defineProperty(gpu.device, "createComputePipelineAsync", {
      configurable: true,
      value: compile.bind(gpu.device),
    });
  });

  test("that was cancelled before makes nothing", async () => {
    const loading = loadProgram(gpu, source({ signal: AbortSignal.abort() }));
    await expect(loading).rejects.toMatchObject({ code: "load.aborted" });
    expect(counts.total()).toBe(0);
  });
});

describe("a program", () => {
  let program: LoadedProgram;

  beforeEach(async () => {
    program = await loadSmall(gpu);
  });
  afterEach(() => program.close());

  const refused = (call: () => unknown, message: string | RegExp) => {
    expect(call).toThrow(EdgewiseError);
    expect(call).toThrow(message);
    try {
      call();
    } catch (error) {
      expect(error).toMatchObject({ code: "device.buffer" });
    }
  };

  test("refuses to write what is not there, not its own, or of another type", () => {
    refused(() => program.write("nothing", step(1)), '"nothing" is no buffer of this program');
    refused(() => program.write("sum", new Uint8Array(4)), '"sum" is scratch');
    refused(() => program.write("weight", new Float32Array(4)), 'parameter "weight" is read-only');
    refused(() => program.write("step", new Float32Array(4)), '"step" is int32, not Float32Array');
    refused(() => program.write("step", new Int32Array(9)), "Bytes 0..36 are not in");
    refused(() => program.write("step", new Int32Array(4), 5), "Bytes 20..36 are not in");
    refused(() => program.write("step", step(1), -1), "are not in");
    refused(() => program.write("step", step(1), 0.5), "are not in");
    refused(() => program.write("halves", new Uint16Array(1)), "4 bytes at a time");
  });

  test("refuses to upload anything but words of a parameter, in it", () => {
    refused(() => program.upload("nothing", 0, new Uint8Array(4)), "cannot be uploaded");
    refused(() => program.upload("state", 0, new Uint8Array(4)), "cannot be uploaded");
    refused(
      () => program.upload("weight", 0, new Uint8Array(20)),
      "Bytes 0..20 cannot be uploaded",
    );
    refused(() => program.upload("weight", 2, new Uint8Array(4)), "Bytes 2..6 cannot be uploaded");
    refused(
      () => program.upload("weight", -4, new Uint8Array(4)),
      "Bytes -4..0 cannot be uploaded",
    );
    refused(() => program.upload("weight", 0, new Uint8Array(6)), "Bytes 0..6 cannot be uploaded");
    refused(() => program.upload("odd", 0, new Uint8Array(4)), "Bytes 0..4 cannot be uploaded");
  });

  test("takes the end of a parameter that is no whole word", async () => {
    program.upload("odd", 0, new Uint8Array([9, 1, 2, 3]).subarray(1));
    await expect(program.read("odd")).resolves.toEqual(new Uint8Array([1, 2, 3]));
  });

  test("reads any rows, also those that begin between two words", async () => {
    const halves = Uint16Array.from({ length: 8 }, (_, i) => i + 1);
    program.write("halves", halves);
    const row = async (first: number, rows?: number) => [
      ...(await program.read("halves", first, rows)),
    ];
    await expect(row(0)).resolves.toEqual([1, 2, 3, 4, 5, 6, 7, 8, 0]);
    await expect(row(1, 1)).resolves.toEqual([4, 5, 6]);
    await expect(row(2)).resolves.toEqual([7, 8, 0]);
    await expect(row(3)).resolves.toEqual([]);
    await expect(row(1, 9)).resolves.toEqual([4, 5, 6, 7, 8, 0]);
    for (const [first, rows] of [[-1], [0.5], [0, -1], [0, 1.5]] as const) {
      await expect(program.read("halves", first, rows)).rejects.toMatchObject({
        code: "device.buffer",
      });
    }
    await expect(program.read("sum")).rejects.toMatchObject({ code: "device.buffer" });
    await expect(program.run(["scale"], 1, ["sum"])).rejects.toMatchObject({
      code: "device.buffer",
    });
  });

  test("counts its bytes by role, and refuses everything once it is closed", async () => {
    expect(program.memory()).toEqual({
      param: 16 + 3,
      state: 256,
      input: 32 + 8,
      output: 1024 + 18 + 4,
      scratch: 4,
    });
    program.close();
    const closed = { code: "device.closed", message: 'Program "small" is closed.' };
    expect(() => program.write("step", step(1))).toThrow(closed.message);
    expect(() => program.upload("weight", 0, new Uint8Array(4))).toThrow(closed.message);
    expect(() => program.memory()).toThrow(closed.message);
    await expect(program.run(["scale"])).rejects.toMatchObject(closed);
    await expect(program.read("x")).rejects.toMatchObject(closed);
    await expect(program.settled()).rejects.toMatchObject(closed);
    await expect(program.trace("scale")[Symbol.asyncIterator]().next()).rejects.toMatchObject(
      closed,
    );
    await expect(program.time("scale")).rejects.toMatchObject(closed);
  });

  test("that is closed while it runs rejects what was asked of it", async () => {
    program.write("step", step(1));
    const pending = [program.run(["tick"], 8, ["count"]), program.read("state")];
    program.close();
    for (const promise of pending) {
      await expect(promise).rejects.toMatchObject({ code: "device.closed" });
    }
    await unharmed();
  });
});

describe("an adapter", () => {
  test("is told of in plain words where there is none", async () => {
    const { report, adapter } = await probe(undefined);
    expect(adapter).toBeNull();
    expect(report).toMatchObject({ available: false, features: [], key: "none" });
    expect(report.reason).toMatch(/^This browser has no WebGPU\.$/);
    const none = { requestAdapter: async () => null } as unknown as GPU;
    expect((await probe(none)).report.reason).toContain("no GPU");
    const old = { requestAdapter: async () => ({}) } as unknown as GPU;
    expect(await probe(old)).toMatchObject({ report: { available: false }, adapter: null });
    const broken = { requestAdapter: () => Promise.reject(new Error("blocked")) } as unknown as GPU;
    expect((await probe(broken)).report.reason).toContain("blocked");
  });

  test("is asked for again where there is none yet, as while a GPU process starts anew", async () => {
    const there = lavapipe();
    let asked = 0;
    const late = Object.assign(Object.create(there), {
      requestAdapter: async () => (++asked < 3 ? null : there.requestAdapter()),
    }) as GPU;
    expect((await probe(late)).report).toMatchObject({ available: true, reason: "" });
    expect(asked).toBe(3);
  });

  test("is described with its features, limits and a key", () => {
    expect(gpu.report).toMatchObject({ available: true, reason: "", subgroupMinSize: 8 });
    expect([...gpu.features]).toEqual(
      expect.arrayContaining(["shader-f16", "subgroups", "timestamp-query"]),
    );
    expect(gpu.report.limits.maxStorageBuffersPerShaderStage).toBeGreaterThanOrEqual(8);
    expect(gpu.report.key).toContain(gpu.report.vendor);
  });
});
