/** The first chunk of a prompt, by how long it should take. */

import { describe, expect, test } from "vitest";
import type { Timed } from "../../device/timing.ts";
import { EdgewiseError } from "../../errors.ts";
import { firstChunk, type Runs, rowsWithin } from "../../worker/first-chunk.ts";
import { goldenManifest, goldenPlans, goldenProgram } from "../format/goldens.ts";

const MANIFEST = goldenManifest();
const PROGRAM = goldenProgram(MANIFEST);
const SHADERS = new Map([...PROGRAM.shaders.values()].map((path) => [path, path]));
const RUNS: Runs = {
  manifest: MANIFEST,
  program: PROGRAM,
  plans: goldenPlans(PROGRAM),
  shaders: SHADERS,
};

function notebook() {
  const notes = new Map<string, Uint8Array<ArrayBuffer>>();
  return {
    notes,
    note: async (key: string) => notes.get(key) ?? null,
    setNote: async (key: string, value: Uint8Array<ArrayBuffer>) => void notes.set(key, value),
  };
}

/** Rows where the kernel that is timed takes so many milliseconds. */
async function rowsOf(ms: number, store = notebook(), runs = RUNS, seen: Timed[] = []) {
  const clock = async (kernel: Timed) => {
    seen.push(kernel);
    return ms;
  };
  return firstChunk({ key: "a phone's GPU", fallback: false }, runs, store, clock);
}

test.each([
  // Milliseconds of 32 rows, and the rows that take a quarter of a second at most.
  [0, 128],
  [10, 128],
  [62, 128],
  [63, 64],
  [125, 64],
  [250, 32],
  [251, 16],
  [2_000, 16],
])("where 32 rows take %d ms, has %i rows", (ms, rows) => {
  expect(rowsWithin(ms)).toBe(rows);
});

describe("what is timed", () => {
  test("is one kernel, for 32 rows, that stands for all of them by what they compute", async () => {
    const seen: Timed[] = [];
    await rowsOf(1, notebook(), RUNS, seen);
    expect(seen.map(({ rows }) => rows)).toEqual([32]);
    expect(seen[0]?.code).toMatch(/matmul_/);
    // One of many kernels: a chunk takes several times as long.
    expect(await rowsOf(1)).toBe(128);
    expect(await rowsOf(249)).toBeLessThan(32);
  });

  test("is remembered for the adapter and the program", async () => {
    const store = notebook();
    const seen: Timed[] = [];
    expect(await rowsOf(1, store, RUNS, seen)).toBe(128);
    expect(await rowsOf(10_000, store, RUNS, seen)).toBe(128);
    expect(seen).toHaveLength(1);
    const other = { ...RUNS, program: { ...PROGRAM, id: "other" } };
    expect(await rowsOf(10_000, store, other)).toBe(16);
    for (const key of store.notes.keys()) store.notes.set(key, new TextEncoder().encode("999"));
    expect(await rowsOf(10_000, store)).toBe(16);
  });

  test("may be nothing: a chunk is small then, and nothing is remembered", async () => {
    const store = notebook();
    const unknown = { ...RUNS, shaders: new Map() };
    expect(await rowsOf(1, store, unknown)).toBe(16);
    const refuse = (code: string) => async () => {
      throw new EdgewiseError(code, "It cannot be timed.");
    };
    const refused = (code: string) =>
      firstChunk({ key: "it", fallback: false }, RUNS, store, refuse(code));
    expect(await refused("device.kernel")).toBe(16);
    await expect(refused("device.lost")).rejects.toMatchObject({ code: "device.lost" });
    expect(store.notes.size).toBe(0);
  });
});

test("is the least on an adapter in software, of which nothing is timed", async () => {
  const clock = async () => Promise.reject(new Error("it was timed"));
  const rows = await firstChunk({ key: "software", fallback: true }, RUNS, notebook(), clock);
  expect(rows).toBe(16);
});
