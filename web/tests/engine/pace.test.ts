/** How much is handed to the device, and when: ahead of the answers, within bounded times. */

import { describe, expect, test } from "vitest";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import type { RunRecord } from "./reference-bundle.ts";
import { makeEngine, promptOf, request, turn } from "./support.ts";

const random = new Random(21);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };

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
