import { describe, expect, test } from "vitest";
import type { Timed } from "../../device/timing.ts";
import type { Program } from "../../format/manifest.ts";
import { type Sources, timedBest } from "../../worker/tuning.ts";
import { goldenManifest, goldenPlan, goldenProgram } from "../format/goldens.ts";

const GOLDEN = goldenProgram(goldenManifest());
const DOT = "packed_4x8_integer_dot_product";

/** The golden program with other needs; its shaders are its own. */
function program(id: string, arithmetic: string, ...features: string[]): Program {
  const shaders = new Map([...GOLDEN.shaders].map(([kernel, path]) => [kernel, `${id}/${path}`]));
  return { ...GOLDEN, id, arithmetic, needs: { ...GOLDEN.needs, features }, shaders };
}

const HALF = program("half", "f16", "shader-f16");
const FULL = program("full", "f32");
const ROUNDS = program("rounds", "w4a8", "shader-f16", DOT);
const ALL: readonly [Program, ...Program[]] = [HALF, FULL, ROUNDS];

/** A shader's text is whose it is. */
const SOURCES: Sources = {
  plan: async (program, name) => goldenPlan(program.plans.get(name) ?? ""),
  shader: async (program) => program.id,
};

/** Milliseconds by program: of one row, and of many. */
type Times = Readonly<Record<string, readonly [number, number]>>;

async function choice(programs: typeof ALL, times: Times, seen: Timed[] = []): Promise<string> {
  const clock = async (kernel: Timed) => {
    seen.push(kernel);
    return times[kernel.code]?.[kernel.rows > 1 ? 1 : 0] ?? Number.NaN;
  };
  return (await timedBest(programs, SOURCES, clock, () => {})).id;
}

describe("the program that is chosen", () => {
  test("is a later one where its decode is much faster", async () => {
    expect(await choice([HALF, FULL], { half: [1, 1], full: [0.8, 1] })).toBe("half");
    expect(await choice([HALF, FULL], { half: [1, 1], full: [0.6, 9] })).toBe("full");
  });

  test("rounds a prompt's activations where that reads prompts much faster", async () => {
    expect(await choice(ALL, { half: [1, 10], full: [9, 9], rounds: [9, 9] })).toBe("half");
    expect(await choice(ALL, { half: [1, 10], full: [9, 9], rounds: [9, 5] })).toBe("rounds");
  });

  test("rounds nothing where the program that decodes alike is not the one for the device", async () => {
    expect(await choice(ALL, { half: [9, 10], full: [1, 9], rounds: [9, 1] })).toBe("full");
  });

  test("is found by one kernel of decode each, and one of prefill of the two that decode alike", async () => {
    const seen: Timed[] = [];
    await choice(ALL, { half: [1, 10], full: [9, 9], rounds: [9, 5] }, seen);
    expect(seen.map(({ code, rows }) => [code, rows > 1])).toEqual([
      ["half", false],
      ["full", false],
      ["rounds", true],
      ["half", true],
    ]);
    const [decode, , prefill] = seen;
    expect(prefill?.grid[1]).toBeGreaterThan(decode?.grid[1] ?? Number.NaN);
  });
});
