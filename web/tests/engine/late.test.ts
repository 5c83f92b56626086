/**
 * Browsers that are slow to tell what has been done: Firefox looks every 100 ms. Time is virtual; what
 * is counted is how often the device is looked at, and what each look brings.
 */

import { describe, expect, test } from "vitest";
import { MOST_NUDGES } from "../../device/nudge.ts";
import { type EngineOptions, GenerationEngine } from "../../engine/engine.ts";
import { MAX_BURST } from "../../engine/pace.ts";
import { expectedTokens } from "./expected.ts";
import { type Lateness, LateProgram, VirtualTime } from "./late.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { promptOf, request, textIn, textOf, tokenizer } from "./support.ts";

const random = new Random(29);
const PROMPT = promptOf(random, 37);
const OTHER = promptOf(random, 30);
const ALL = { ignoreEos: true };
const CONTEXT = 2048;
/** A GPU that decodes 200 tokens a second, and reads 2,000. */
const GPU = { step: 5, row: 0.5 };
const TIMER: Lateness = { every: 100, looks: false, ...GPU };
const FIREFOX: Lateness = { ...TIMER, looks: true };

function lateEngine(lateness: Lateness, options: Partial<EngineOptions> = {}) {
  const time = new VirtualTime();
  const sizes = { pages: 256, context: CONTEXT };
  const reference = new ReferenceProgram({ ...sizes, prefillChunk: 512 });
  const program = new LateProgram(reference, time, lateness);
  const { clock, timer } = time;
  const engine = new GenerationEngine(program, tokenizer, { ...sizes, clock, timer, ...options });
  /** The tokens of an answer, and how often something was heard of until it was whole. */
  const answer = async (prompt: readonly number[], maxTokens: number) => {
    const before = program.looks.size;
    const asked = request(prompt, { maxTokens, ...ALL });
    const { tokenIds } = await time.until(engine.submit(asked).completion);
    expect(tokenIds).toEqual(expectedTokens(prompt, asked.params, CONTEXT));
    return program.looks.size - before;
  };
  return { engine, program, reference, time, answer };
}

describe("where only a timer tells", () => {
  test("a look brings as many tokens as were decoded since the last", async () => {
    const { program, answer } = lateEngine(TIMER);
    // 400 tokens take the device 2 s: 20 looks would do.
    expect(await answer(PROMPT, 400)).toBeLessThanOrEqual(32);
    expect(await answer(PROMPT, 400)).toBeLessThanOrEqual(25);
    expect(Math.max(...program.bursts.map(({ k }) => k))).toBeGreaterThan(MAX_BURST);
  });

  test.each([3, 12, 40])(
    "and a burst takes no longer than two looks, at %i ms a step",
    async (step) => {
      const { program, answer } = lateEngine({ ...TIMER, step });
      await answer(PROMPT, 400);
      await answer(PROMPT, 400);
      for (const { k } of program.bursts) expect(k * step).toBeLessThanOrEqual(200);
    },
  );

  test("and bursts fill the time between looks that come less often", async () => {
    const { answer } = lateEngine({ ...TIMER, every: 300 });
    await answer(PROMPT, 400);
    // 2 s of work: seven looks would do.
    expect(await answer(PROMPT, 400)).toBeLessThanOrEqual(10);
  });

  test("of a quick GPU more bursts are under way, each as long as the ring", async () => {
    const { program, answer } = lateEngine({ ...TIMER, step: 0.5 });
    await answer(PROMPT, 600);
    const before = program.bursts.length;
    expect(await answer(PROMPT, 600)).toBeLessThanOrEqual(8);
    expect(program.bursts.slice(before).map(({ k }) => k)).toContain(64);
    expect(program.underWay).toBe(4);
  });

  test("chunks of a prompt grow to what the device does in a quarter of a second", async () => {
    const { program, answer } = lateEngine({ ...TIMER, row: 0.1 });
    await answer(promptOf(random, 1800), 4);
    const { length } = program.chunks;
    await answer(promptOf(random, 1800), 4);
    expect(program.chunks.slice(length)).toContain(512);
  });

  test("chunks of a prompt do not grow where rows are what takes the time", async () => {
    const { program, answer } = lateEngine({ ...TIMER, row: 2 });
    await answer(promptOf(random, 1000), 40);
    await answer(promptOf(random, 1000), 4);
    expect(Math.max(...program.chunks)).toBe(128);
  });

  test("nudging ends once it has not helped", async () => {
    const { program, answer } = lateEngine(TIMER);
    await answer(PROMPT, 400);
    await answer(PROMPT, 400);
    const { nudges } = program;
    expect(nudges).toBeGreaterThan(0);
    expect(nudges).toBeLessThanOrEqual(30 * MOST_NUDGES);
    await answer(PROMPT, 400);
    expect(program.nudges).toBe(nudges);
  });
});

describe("where whatever is submitted makes the browser look", () => {
  test("nudges do, a few for each burst, and bursts stay as short as anywhere", async () => {
    const { program, time, answer } = lateEngine(FIREFOX);
    await answer(PROMPT, 100);
    const before = { bursts: program.bursts.length, nudges: program.nudges, now: time.now };
    await answer(PROMPT, 200);
    const bursts = program.bursts.slice(before.bursts);
    expect(Math.max(...bursts.map(({ k }) => k))).toBeLessThanOrEqual(MAX_BURST);
    expect(program.nudges - before.nudges).toBeLessThanOrEqual(4 * bursts.length);
    // The device is busy for 1,024 of them.
    expect(time.now - before.now).toBeLessThan(1200);
  });

  test.each([
    [1, 5],
    [4, 5],
    [15, 0.5],
  ])("a browser that tells within %i ms is never nudged, at %d ms a step", async (every, step) => {
    const { program, answer } = lateEngine({ ...FIREFOX, every, step });
    await answer(PROMPT, 200);
    await answer(PROMPT, 200);
    expect(program.nudges).toBe(0);
    expect(Math.max(...program.bursts.map(({ k }) => k))).toBe(MAX_BURST);
    expect(program.underWay).toBe(2);
  });
});

describe("what ends an answer", () => {
  const all = expectedTokens(PROMPT, request(PROMPT, { maxTokens: 300, ...ALL }).params, CONTEXT);
  const late = all.findLast((token, i) => all.indexOf(token) === i) ?? 0;
  const cases = [
    { stop: textOf(all.slice(9, 11)) },
    { stop: textOf(all.slice(140, 143)) },
    { stop: [textOf(all.slice(60, 70)), textOf(all.slice(61, 64))] },
    { stop: "never" },
    { stopTokenIds: [late] },
    { stopTokenIds: all.slice(3, 4), stop: textOf(all.slice(2, 3)) },
    { maxTokens: 77, stop: textOf(all.slice(76, 79)) },
  ];

  test.each(cases)("gives what bursts of one give: $stop $stopTokenIds", async (options) => {
    const results = await Promise.all(
      [1, undefined].map(async (maxBurst) => {
        const { engine, program, time } = lateEngine(TIMER, maxBurst ? { maxBurst } : {});
        await time.until(engine.submit(request(OTHER, { maxTokens: 300, ...ALL })).completion);
        const asked = request(PROMPT, { maxTokens: 250, ...ALL, ...options });
        const running = engine.submit(asked);
        const { timings: _, ...completion } = await time.until(running.completion);
        expect(await textIn(running)).toBe(completion.text);
        expect(Math.max(...program.bursts.map(({ k }) => k)) > MAX_BURST).toBe(maxBurst !== 1);
        return { completion: { ...completion, seed: "" }, engine, time };
      }),
    );
    const [single, whole] = results;
    expect(whole?.completion).toEqual(single?.completion);
    // What was drawn after the end is in nobody's pages: the next turn says what it says alone.
    for (const { completion, engine, time } of results) {
      const prompt = [...PROMPT, ...completion.tokenIds, 5, 6];
      const next = request(prompt, { maxTokens: 30, ...ALL });
      const { tokenIds, usage } = await time.until(engine.submit(next).completion);
      expect(tokenIds).toEqual(expectedTokens(prompt, next.params, CONTEXT));
      // All but the last token of the answer were in pages, and full pages are kept.
      const known = PROMPT.length + completion.tokenIds.length - 1;
      expect(usage.cachedTokens).toBe(Math.floor(known / 16) * 16);
      expect(engine.check()).toEqual([]);
    }
  });
});
