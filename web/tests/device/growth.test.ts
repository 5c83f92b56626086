/** State that grows: what was in it stays, what was under way is in it, and little is held at once. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Counters, LoadedProgram } from "../../device/base.ts";
import type { Gpu } from "../../device/gpu.ts";
import { growBuffers } from "../../device/growth.ts";
import { allocate } from "../../device/memory.ts";
import { fetchPiece, makeLandings } from "../../device/transfer.ts";
import { loadSmall, type Meter, meter, openDevice, step } from "./bench.ts";

/** Bytes of a page of the small program. */
const PAGE = 64;

let gpu: Gpu;
let counts: Meter;

beforeEach(async () => {
  gpu = await openDevice();
  counts = meter(gpu);
});
afterEach(() => gpu.close());

/** From the nth error scope on, the device says that there is no memory for what is made. */
function fullAfter(scopes: number): void {
  const pop = gpu.device.popErrorScope.bind(gpu.device);
  let popped = 0;
  Object.defineProperty(gpu.device, "popErrorScope", {
    configurable: true,
    value: async () => {
      const error = await pop();
      popped += 1;
      return popped > scopes ? { message: "no memory left" } : error;
    },
  });
}

describe("a program's pages", () => {
  let program: LoadedProgram;

  beforeEach(async () => {
    program = await loadSmall(gpu);
    program.write("step", step(1));
    await program.run(["scale", "tick"], 4);
  });
  afterEach(() => program.close());

  const first = async () => (await program.read("state"))[0];

  test("keep what is in them, and take part in what comes after", async () => {
    const before = { ...program.counters };
    expect([program.pages, await first()]).toEqual([4, 4]);
    await program.grow(9);
    expect([program.pages, await first()]).toEqual([9, 4]);
    expect(await program.read("state")).toHaveLength(9 * 16);
    expect((await program.read("state", 4)).every((value) => value === 0)).toBe(true);
    await program.run(["tick"], 2);
    expect(await first()).toBe(6);
    expect(program.memory().state).toBe(9 * PAGE);
    expect(program.counters).toMatchObject({
      growths: 1,
      copies: 1,
      copiedBytes: 4 * PAGE,
      bytes: before.bytes + 5 * PAGE,
      peakBytes: before.bytes + 9 * PAGE,
      bindGroups: before.bindGroups + 1,
      pipelines: before.pipelines,
    });
  });

  test("have what is under way while they grow, and runs go on meanwhile", async () => {
    void program.run(["tick"], 8);
    const growing = program.grow(8);
    void program.run(["tick"], 8);
    await growing;
    await program.run(["tick"], 1);
    expect(await first()).toBe(4 + 8 + 8 + 1);
  });

  test("never become fewer", async () => {
    const { submits } = program.counters;
    await program.grow(2);
    expect([program.pages, program.counters.submits]).toEqual([4, submits]);
  });

  test("become fewer again: what is in those that stay is kept, and the rest is given back", async () => {
    const before = { ...program.counters };
    await program.grow(9);
    const { bytes } = program.counters;
    void program.run(["tick"], 8);
    const shrinking = program.shrink(4);
    expect(program.pages).toBe(4);
    void program.run(["tick"], 8);
    await shrinking;
    await program.run(["tick"], 1);
    expect([program.pages, await first()]).toEqual([4, 4 + 8 + 8 + 1]);
    expect(await program.read("state")).toHaveLength(4 * 16);
    expect(program.memory().state).toBe(4 * PAGE);
    expect(program.counters).toMatchObject({ bytes: before.bytes, shrinks: 1, growths: 1 });
    expect(bytes).toBe(before.bytes + 5 * PAGE);
    expect(counts.live.size).toBe(before.buffers);
    await program.shrink(4);
    expect(program.counters.shrinks).toBe(1);
    await program.grow(6);
    await program.run(["tick"], 1);
    expect([await first(), program.memory().state]).toEqual([22, 6 * PAGE]);
  });

  test("of which fewer are wanted where there is no room for that are no more, and their memory stays", async () => {
    await program.grow(8);
    fullAfter(0);
    await expect(program.shrink(4)).rejects.toMatchObject({ code: "device.memory" });
    expect([program.pages, program.memory().state]).toEqual([4, 8 * PAGE]);
    Reflect.deleteProperty(gpu.device, "popErrorScope");
    await program.run(["tick"], 1);
    expect(await first()).toBe(5);
    await program.grow(8);
    expect([program.pages, program.memory().state]).toEqual([8, 8 * PAGE]);
  });

  test("are given back when it is closed while they become fewer, and lost with the device", async () => {
    await program.grow(8);
    const shrinking = program.shrink(4);
    program.close();
    await expect(shrinking).rejects.toMatchObject({ code: "device.closed" });
    expect(counts.live.size).toBe(0);
    const other = await loadSmall(gpu);
    await other.grow(8);
    const losing = other.shrink(4);
    gpu.device.destroy();
    await expect(losing).rejects.toMatchObject({ code: "device.lost" });
  });

  test("stay as they are where the device has no room, also for a buffer as large", async () => {
    fullAfter(0);
    await expect(program.grow(8)).rejects.toMatchObject({
      code: "device.memory",
      message: expect.stringContaining("no room for another 512 bytes of pages: no memory left"),
    });
    const most = gpu.report.limits.maxStorageBufferBindingSize;
    await expect(program.grow(most / PAGE + 1)).rejects.toMatchObject({ code: "device.memory" });
    expect(program.memory().state).toBe(4 * PAGE);
    expect(counts.live.size).toBe(program.counters.buffers);
    await program.run(["tick"], 1);
    expect([program.pages, program.counters.growths]).toEqual([4, 0]);
  });

  test("are given back when it is closed, also while they grow", async () => {
    await program.grow(8);
    const growing = program.grow(16);
    program.close();
    await expect(growing).rejects.toMatchObject({ code: "device.closed" });
    expect(counts.live.size).toBe(0);
  });

  test("are lost with the device", async () => {
    const growing = program.grow(8);
    gpu.device.destroy();
    await expect(growing).rejects.toMatchObject({ code: "device.lost" });
  });
});

describe("eight buffers that become twice as large", () => {
  const NAMES = Array.from({ length: 8 }, (_, i) => `kv.${i}`);
  const sizes = (bytes: number) => new Map(NAMES.map((name) => [name, bytes]));
  const KIB = 1024;

  async function eight() {
    const counters = {
      ...{ submits: 0, dispatches: 0, buffers: 0, bindGroups: 0, pipelines: 0, readbacks: 0 },
      ...{ bytes: 0, peakBytes: 0, growths: 0, shrinks: 0, copies: 0, copiedBytes: 0 },
    } satisfies Counters;
    const memory = await allocate(gpu, sizes(KIB), new Map(), counters);
    for (const [i, name] of NAMES.entries()) {
      const data = new Uint32Array(KIB / 4).fill(i + 1);
      gpu.device.queue.writeBuffer(memory.get(name), 0, data);
    }
    const rebound: string[][] = [];
    const submit = (encoder: GPUCommandEncoder) => gpu.device.queue.submit([encoder.finish()]);
    const rebind = (names: ReadonlySet<string>) => rebound.push([...names]);
    const growing = { gpu, memory, counters, submit, rebind, open: () => {} };
    const landings = makeLandings(gpu, { ...counters }, []);
    const read = async (name: string) => {
      const buffer = memory.get(name);
      const piece = { buffer, offset: 0, size: buffer.size };
      return [...new Uint32Array(await fetchPiece(gpu, landings, piece, submit))];
    };
    const close = () => {
      memory.destroy();
      landings.destroy();
    };
    return { counters, memory, rebound, growing, read, close };
  }

  test("are replaced in four rounds, beside each of which little of the old is held", async () => {
    const { counters, memory, rebound, growing, read, close } = await eight();
    const before = counters.bytes;
    await growBuffers(growing, sizes(2 * KIB));
    expect(rebound).toEqual([0, 2, 4, 6].map((i) => NAMES.slice(i, i + 2)));
    expect(counters.bytes).toBe(before + 8 * KIB);
    expect(counters.peakBytes).toBe(before + 8 * KIB + 2 * KIB);
    expect(counters).toMatchObject({ copies: 8, copiedBytes: 8 * KIB });
    for (const [i, name] of NAMES.entries()) {
      const kept = new Array<number>(KIB / 4).fill(i + 1);
      expect(await read(name)).toEqual([...kept, ...new Array<number>(KIB / 4).fill(0)]);
    }
    expect(memory.sizes.get("kv.3")).toBe(2 * KIB);
    close();
    expect(counts.live.size).toBe(0);
  });

  test("of which some are larger, and all as they were, where room ends on the way", async () => {
    const { counters, memory, growing, read, close } = await eight();
    fullAfter(4); // two scopes a round
    await expect(growBuffers(growing, sizes(2 * KIB))).rejects.toMatchObject({
      code: "device.memory",
    });
    expect(NAMES.map((name) => memory.sizes.get(name) === 2 * KIB)).toEqual(
      NAMES.map((_, i) => i < 4),
    );
    expect(counters.copies).toBe(4);
    Reflect.deleteProperty(gpu.device, "popErrorScope");
    for (const [i, name] of NAMES.entries()) {
      expect((await read(name)).slice(0, KIB / 4)).toEqual(new Array(KIB / 4).fill(i + 1));
    }
    await growBuffers(growing, sizes(2 * KIB));
    expect(counters.copies).toBe(8);
    close();
    expect(counts.live.size).toBe(0);
  });
});
