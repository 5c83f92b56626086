/** How much is handed to the device, and when: ahead of the answers, within bounded times. */

import { describe, expect, test } from "vitest";
import { type Kind, Pace } from "../../engine/pace.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import type { RunRecord } from "./reference-bundle.ts";
import { makeEngine, promptOf, request, turn } from "./support.ts";

const random = new Random(21);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };

/** A pace that has heard of pieces of work, one after the other, each so long after it began. */
function paced(heard: readonly (readonly [kind: Kind, size: number, ms: number])[]): Pace {
  const pace = new Pace(512, null);
  let now = 0;
  for (const [kind, size, ms] of heard) {
    const effort = { kind, size, submitted: now };
    now += ms;
    pace.took(effort, now);
  }
  return pace;
}

const RAMP = [1, 2, 4, 8, 4, 8];

describe("a pace", () => {
  test.each([
    [0, 5, 8, 2, false],
    [15, 1, 8, 2, false],
    // A usual burst takes longer than it is late.
    [30, 20, 4, 2, false],
    [70, 10, 5, 2, false],
  ])("with a latency of %i ms and %i ms a step", (latency, cost, longest, depth, nudges) => {
    const pace = paced(RAMP.map((size) => ["burst", size, latency + cost * size]));
    expect([pace.burst(9), pace.depth("burst"), pace.nudges]).toEqual([longest, depth, nudges]);
  });

  test("on a busy machine, which delays most bursts and not all, is as anywhere", () => {
    const pace = paced(
      [...RAMP, ...RAMP, ...RAMP].map((size, i) => ["burst", size, size + (i % 3 === 2 ? 0 : 60)]),
    );
    expect([pace.depth("burst"), pace.nudges]).toEqual([2, false]);
  });

  test("with a latency that dominates nudges, and once that was in vain has longer bursts", () => {
    const times = (latency: number, cost: number) =>
      [...RAMP, ...RAMP, ...RAMP, ...RAMP, ...RAMP, 16, 16].map((size): [Kind, number, number] => [
        "burst",
        size,
        latency + cost * size,
      ]);
    const slow = paced(times(100, 2).slice(0, 10));
    expect([slow.nudges, slow.burst(1), slow.burst(9)]).toEqual([true, 2, 6]);
    const late = paced(times(100, 2));
    expect([late.nudges, late.burst(9), late.depth("burst")]).toEqual([false, 12, 4]);
  });

  test("knows how fast prompts are computed: as fast as the quickest chunk was", () => {
    expect(paced([["burst", 4, 10]]).prefillSpeed).toBeNull();
    const chunks = [
      ["chunk", 128, 900],
      ["chunk", 64, 32],
      ["chunk", 20, 30],
    ] as const; // the first compiles
    expect(paced(chunks).prefillSpeed).toBe(2000);
  });

  test("judges chunks without the latency, until nudging may have changed it", () => {
    const chunks = [64, 128, 64, 128].map((rows): [Kind, number, number] => ["chunk", rows, 100]);
    expect(paced(chunks).chunk).toBe(256);
    const bursts = [1, 2, 4, 8, 1, 2, 4, 8].map((size): [Kind, number, number] => [
      "burst",
      size,
      100,
    ]);
    const nudging = paced([...chunks, ...bursts, ["chunk", 256, 100]]);
    expect([nudging.nudges, nudging.chunk]).toEqual([true, 256]);
  });

  test("takes together what is heard of together", () => {
    const pace = new Pace(512, null);
    for (let at = 0; at < 300; at += 100) {
      pace.took({ kind: "burst", size: 2, submitted: at }, at + 100);
      pace.took({ kind: "burst", size: 4, submitted: at }, at + 101);
    }
    // Six steps came within a tenth of a second, so as many may be asked for at once.
    expect(pace.burst(9)).toBe(6);
  });
});

describe("work under way", () => {
  const chunks = (runs: readonly RunRecord[]) =>
    runs.filter((run) => run.plans.includes("prefill")).map((run) => run.rows);
  const bursts = (runs: readonly RunRecord[]) =>
    runs.filter((run) => run.plans[0]?.startsWith("decode"));

  test("a burst goes on before the one ahead of it is read, with one write", async () => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    await engine.submit(request(PROMPT, { maxTokens: 60, ...ALL })).completion;
    const going = bursts(program.runs);
    expect(going.map((run) => run.ahead)).toEqual(going.map(() => 1));
    expect(going.every((run) => run.written.length === 1 && run.written[0] === "step")).toBe(true);
  });

  test("bursts grow from one token to eight", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    await engine.submit(request(PROMPT, { maxTokens: 40, ...ALL })).completion;
    expect(bursts(program.runs).map((run) => run.k)).toEqual([1, 2, 4, 8, 8, 8, 8]);
  });

  /** An engine whose device takes `ms` for a run. */
  function timed(ms: (run: RunRecord) => number) {
    let now = 0;
    const arrive = async (run: RunRecord) => {
      await turn();
      now += ms(run);
    };
    return makeEngine(
      { pages: 64, context: 1024, prefillChunk: 512, arrive },
      { clock: () => now },
    );
  }

  test("bursts take about a tenth of a second at most", async () => {
    const { engine, program } = timed((run) => 30 * run.k);
    await engine.submit(request(PROMPT, { maxTokens: 40, ...ALL })).completion;
    expect(
      bursts(program.runs)
        .slice(3)
        .every((run) => run.k === 3),
    ).toBe(true);
  });

  test("bursts whose length is given take the time they take, and wrap in the ring", async () => {
    const arrive = turn;
    for (const maxBurst of [1, 5, 64]) {
      const { engine, program } = makeEngine({ pages: 64, arrive }, { maxBurst });
      const asked = request(PROMPT, { maxTokens: 200, ...ALL });
      const { tokenIds } = await engine.submit(asked).completion;
      expect(tokenIds).toEqual(expectedTokens(PROMPT, asked.params));
      expect(Math.max(...program.runs.map((run) => run.k))).toBe(maxBurst);
    }
  });

  test("bursts are no longer than a plan may run in one call", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    program.plans.set("decode.1", { maxBurst: 3 });
    await engine.submit(request(PROMPT, { maxTokens: 12, ...ALL })).completion;
    expect(bursts(program.runs).map((run) => run.k)).toEqual([1, 2, 3, 3, 2]);
  });

  test.each([0, 65, 1.5, Number.NaN])("bursts of %d are refused", (maxBurst) => {
    expect(() => makeEngine({ pages: 64 }, { maxBurst })).toThrow(
      expect.objectContaining({ code: "input.burst" }),
    );
  });

  test("chunks of a prompt grow where they are quick", async () => {
    const { engine, program } = timed(() => 5);
    await engine.submit(request(promptOf(random, 1000), { maxTokens: 1 })).completion;
    expect(chunks(program.runs)).toEqual([128, 128, 256, 256, 232]);
  });

  test("chunks of a prompt shrink where they take long", async () => {
    const { engine, program } = timed((run) => 4 * run.rows);
    await engine.submit(request(promptOf(random, 400), { maxTokens: 1 })).completion;
    expect(chunks(program.runs)).toEqual([128, 128, 64, 64]);
  });

  test("times are those of the device, as usage counts tokens", async () => {
    const { engine } = timed((run) => (run.plans[0] === "decode.1" ? 10 * run.k : 50));
    const running = engine.submit(request(PROMPT, { maxTokens: 9, ...ALL }));
    const { timings } = await running.completion;
    expect(timings).toEqual({
      ttftMs: 50,
      prefillMs: 50,
      decodeMs: 80,
      prefillTokensPerSecond: 740,
      decodeTokensPerSecond: 100,
      decodeTokens: 8,
    });
  });
});
