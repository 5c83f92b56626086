/** A device that is lost, at any time: `device.lost`, and never a hang. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LoadedProgram } from "../../device/base.ts";
import type { Gpu } from "../../device/gpu.ts";
import { loadProgram } from "../../device/webgpu.ts";
import { loadSmall, openDevice, source, step, watch } from "./bench.ts";

const LOST = { code: "device.lost" };

let gpu: Gpu;

beforeEach(async () => {
  gpu = await openDevice();
});
afterEach(() => gpu.close());

/** What a driver does that drops its work: nothing. */
function silence(target: object, name: string): void {
  Object.defineProperty(target, name, { configurable: true, value: () => new Promise(() => {}) });
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T | "nothing"> {
  const late = new Promise<"nothing">((resolve) => setTimeout(() => resolve("nothing"), ms));
  return Promise.race([promise, late]);
}

describe("a device lost while a program is loaded", () => {
  test("before anything is made", async () => {
    gpu.device.destroy();
    await expect(loadProgram(gpu, source())).rejects.toMatchObject(LOST);
  });

  test.each([1, 3, 6])("after %i kernels", async (kernels) => {
    const onProgress = (done: number) => {
      if (done === kernels) gpu.device.destroy();
    };
    await expect(loadProgram(gpu, source({ onProgress }))).rejects.toMatchObject(LOST);
  });

  test.each(["createComputePipelineAsync", "popErrorScope"])(
    "while the driver never answers %s",
    async (name) => {
      silence(gpu.device, name);
      const loading = loadProgram(gpu, source());
      setTimeout(() => gpu.device.destroy(), 20);
      await expect(loading).rejects.toMatchObject(LOST);
    },
  );
});

describe("a device lost under a program", () => {
  let program: LoadedProgram;

  beforeEach(async () => {
    program = await loadSmall(gpu);
    program.write("step", step(1));
  });
  afterEach(() => program.close());

  test("rejects what is under way, and everything asked after", async () => {
    const pending = [
      program.run(["tick"], 8, ["count"]),
      program.read("state"),
      program.run(["scale"], 1, ["x"]),
    ];
    gpu.device.destroy();
    for (const promise of pending) await expect(promise).rejects.toMatchObject(LOST);
    await expect(program.lost).resolves.toMatchObject(LOST);
    expect(() => program.write("step", step(1))).toThrow(/was lost/);
    await expect(program.run(["tick"])).rejects.toMatchObject(LOST);
    await expect(program.read("count")).rejects.toMatchObject(LOST);
    await expect(program.settled()).rejects.toMatchObject(LOST);
    await expect(loadProgram(gpu, source())).rejects.toMatchObject(LOST);
  });

  test("rejects a trace, a timing and a wait under way", async () => {
    const trace = program.trace("scale")[Symbol.asyncIterator]();
    await trace.next();
    const pending = [trace.next(), program.time("scale"), program.settled()];
    gpu.device.destroy();
    const [traced, timed, settled] = await Promise.allSettled(pending);
    expect(traced).toMatchObject({ status: "rejected", reason: LOST });
    expect(timed).toMatchObject({ status: "rejected", reason: LOST });
    expect(settled).toMatchObject({ status: "rejected", reason: LOST });
  });

  test("rejects even what its driver has forgotten", async () => {
    watch(gpu.device, "createCommandEncoder", () => {});
    const { prototype } = globalThis.GPUBuffer;
    const mapAsync = prototype.mapAsync;
    silence(prototype, "mapAsync");
    try {
      silence(gpu.device.queue, "onSubmittedWorkDone");
      const pending = [program.run(["tick"], 1, ["count"]), program.read("x"), program.settled()];
      expect(await within(50, Promise.any(pending))).toBe("nothing");
      gpu.device.destroy();
      for (const promise of pending) await expect(promise).rejects.toMatchObject(LOST);
    } finally {
      Object.defineProperty(prototype, "mapAsync", { configurable: true, value: mapAsync });
    }
  });

  test("is what an error after submitting makes of it: results cannot be trusted", async () => {
    gpu.device.createBindGroupLayout({
      entries: [
        { binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: {} },
        { binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: {} },
      ],
    });
    const error = await program.lost;
    expect(error).toMatchObject(LOST);
    expect(error.message).toMatch(/was lost: .*binding/s);
    await expect(program.run(["tick"])).rejects.toMatchObject(LOST);
  });

  test("is no news of a program that is closed, nor of a device that is", async () => {
    const other = await loadSmall(gpu);
    other.close();
    gpu.device.destroy();
    await expect(program.lost).resolves.toMatchObject(LOST);
    expect(await within(50, other.lost)).toBe("nothing");
    await expect(other.run(["tick"])).rejects.toMatchObject({ code: "device.closed" });
  });

  test("is not what closing the device is", async () => {
    const pending = program.run(["tick"], 8, ["count"]);
    gpu.close();
    await expect(pending).rejects.toMatchObject({ code: "device.closed" });
    expect(await within(50, program.lost)).toBe("nothing");
    expect(await within(50, gpu.lost)).toBe("nothing");
  });
});
