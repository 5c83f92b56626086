/** Models with windows: an engine that gives their pages back says what it says with all of them. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type EngineOptions, GenerationEngine } from "../../engine/engine.ts";
import { EdgewiseError } from "../../errors.ts";
import { footprintOf } from "../../format/state.ts";
import { expectedTokens } from "./expected.ts";
import { LateProgram, VirtualTime } from "./late.ts";
import { poisoning } from "./poison.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { model, type ReferenceOptions } from "./reference-bundle.ts";
import { Parcel, restingOn, Shelf, Timers } from "./shelf.ts";
import { makeEngine, promptOf, request, tokenizer, tokensOf, turn } from "./support.ts";

const random = new Random(83);
const PROMPT = promptOf(random, 200);
const ALL = { ignoreEos: true };
const CONTEXT = 512;
const KINDS = [[[null, 40]], [[null, 40, 3]], [[40]]] as const;
const SIZES = { context: CONTEXT, prefillChunk: 32, maxBatch: 3, arrive: turn };

let program: ReferenceProgram;
let antidote: () => void;
beforeEach(() => {
  antidote = poisoning((pages) => program.poison(pages));
});
afterEach(() => antidote());

function made(options: Partial<ReferenceOptions>, more: Partial<EngineOptions> = {}) {
  const timers = new Timers();
  const { engine, program: made } = makeEngine(
    { pages: 200, ...SIZES, ...options },
    { timer: timers.timer, ...more },
  );
  program = made;
  const say = async (prompt: readonly number[], maxTokens = 20) => {
    const asked = request(prompt, { maxTokens, ...ALL });
    const { tokenIds, usage } = await engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(prompt, asked.params, CONTEXT));
    await turn();
    expect(engine.check()).toEqual([]);
    return usage.cachedTokens;
  };
  return { engine, program: made, say, timers };
}

describe.each(KINDS)("with the windows %j", (windows) => {
  const whole = windows.filter((window) => window === null).length;
  const one = footprintOf(model({ pages: 1, ...SIZES, windows })).pages(CONTEXT);

  test("a whole context fits into the pages that its windows leave, and says the same", async () => {
    const { engine, say } = made({ windows, pages: one });
    expect(engine.context).toBe(CONTEXT);
    expect(await say(PROMPT, CONTEXT - PROMPT.length)).toBe(0);
    const { engine: smaller } = made({ windows, pages: one - 1 });
    expect(smaller.context).toBeLessThan(CONTEXT);
  });

  test("an engine that begins with few pages makes no more than it needs", async () => {
    const { engine, program } = made({ windows, pages: 8 }, { pages: 200 });
    const asked = request(PROMPT, { maxTokens: 250, ...ALL });
    const tokens = await tokensOf(engine.submit(asked));
    expect(tokens).toEqual(expectedTokens(PROMPT, asked.params, CONTEXT));
    // 449 tokens are in 29 pages; of a window there are those of a few chunks or bursts.
    const needed = whole * 29 + (windows.length - whole) * 8;
    expect(program.pages).toBeLessThanOrEqual(Math.ceil(1.5 * needed));
  });

  test("many at once say what each says alone", async () => {
    const { engine } = made({ windows, pages: 3 * one });
    const asked = Array.from({ length: 6 }, (_, i) =>
      request(promptOf(random, 20 + 41 * i), { maxTokens: 30 + 40 * (i % 3), ...ALL }),
    );
    const running = asked.map((each) => engine.submit(each));
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params, CONTEXT)),
    );
    expect(engine.check()).toEqual([]);
  });

  test("choices of one prompt share what they can, and are what each is alone", async () => {
    const { engine } = made({ windows, pages: 4 * one });
    const options = { maxTokens: 90, temperature: 1, seed: 5, ...ALL };
    const running = engine.choices(request(PROMPT, options), 3);
    const [first, ...others] = await Promise.all(running.map(({ completion }) => completion));
    const { params } = request(PROMPT, options);
    expect(first?.tokenIds).toEqual(expectedTokens(PROMPT, params, CONTEXT));
    expect(new Set(others.map(({ tokenIds }) => tokenIds.join())).size).toBe(2);
    expect(others.map(({ usage }) => usage.cachedTokens)).toEqual([192, 192]);
    await turn();
    expect(engine.check()).toEqual([]);
  });

  test("a prompt goes on from pages as from its beginning, also where only its beginning is known", async () => {
    const { say } = made({ windows });
    expect(await say(PROMPT, 60)).toBe(0);
    expect(await say(PROMPT, 60)).toBe(192);
    expect(await say([...PROMPT.slice(0, 100), ...promptOf(random, 90)], 60)).toBe(96);
  });

  test("a prompt whose window is gone is computed from where one is left", async () => {
    const { say } = made({ windows, pages: one + 6 });
    expect(await say(PROMPT, 250)).toBe(0);
    // Another takes the pages that were given back, and leaves those of the end.
    await say(promptOf(random, 150), 5);
    const answer = expectedTokens(
      PROMPT,
      request(PROMPT, { maxTokens: 250, ...ALL }).params,
      CONTEXT,
    );
    expect(await say([...PROMPT, ...answer, 1, 2, 3], 5)).toBe(448);
    expect(await say(PROMPT.slice(0, 100))).toBe(0);
  });

  test("the youngest waits where there is no room, and says the same", async () => {
    const { engine } = made({ windows, pages: 4, room: one }, { pages: 4 * one });
    const asked = [190, 180, 170].map((length) =>
      request(promptOf(random, length), { maxTokens: 150, ...ALL }),
    );
    const running = asked.map((each) => engine.submit(each));
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params, CONTEXT)),
    );
    expect(engine.check()).toEqual([]);
  });

  test("what a failed answer has given back is not found", async () => {
    const { engine, program, say } = made({ windows });
    const running = engine.submit(request(PROMPT, { maxTokens: 250, ...ALL }));
    while (program.runs.length < 20) await turn();
    program.failNext(new EdgewiseError("device.kernel", "A kernel failed."));
    await expect(running.completion).rejects.toMatchObject({ code: "device.kernel" });
    await turn();
    expect(engine.stats()).toMatchObject({ pagesFree: 200, pagesCached: 0 });
    expect(await say(PROMPT)).toBe(0);
  });

  test("an answer whose logits are not finite is told of from the pages that are left", async () => {
    const spoiler = 7;
    const prompt = [...PROMPT.map((token) => (token === spoiler ? 8 : token)), spoiler];
    const { engine } = made({ windows, spoiler });
    const asked = request(prompt, { maxTokens: 9, ...ALL });
    const failed = expect.objectContaining({
      code: "engine.not_finite",
      message: expect.stringMatching(/after token 201 .*keys/),
    });
    await expect(engine.submit(asked).completion).rejects.toEqual(failed);
    await turn();
    expect(engine.stats()).toMatchObject({ pagesCached: 0, pagesFree: 200 });
    expect(engine.check()).toEqual([]);
  });

  test("a device that is lost in the middle takes nobody's answer", async () => {
    const { engine, program: first } = made({ windows });
    const asked = request(PROMPT, { maxTokens: 250, ...ALL });
    const running = engine.submit(asked);
    while (first.runs.length < 20) await turn();
    first.lose();
    await turn();
    program = new ReferenceProgram({ pages: 200, ...SIZES, windows });
    engine.replaceProgram(program);
    expect(await tokensOf(running)).toEqual(expectedTokens(PROMPT, asked.params, CONTEXT));
    expect(engine.check()).toEqual([]);
  });
});

test("a browser that is late has no more under way than windows are counted for", async () => {
  const time = new VirtualTime();
  const sizes = { pages: 400, context: 1024 };
  program = new ReferenceProgram({ ...sizes, prefillChunk: 32, windows: [null, 40] });
  const late = new LateProgram(program, time, { every: 100, looks: false, step: 0.5, row: 0.5 });
  const { clock, timer } = time;
  const engine = new GenerationEngine(late, tokenizer, { ...sizes, clock, timer });
  const problems: string[] = [];
  const run = program.run.bind(program);
  program.run = (...given) => {
    problems.push(...engine.check());
    return run(...given);
  };
  for (let round = 0; round < 2; round++) {
    const asked = request(promptOf(random, 60), { maxTokens: 800, ...ALL });
    const { tokenIds } = await time.until(engine.submit(asked).completion);
    expect(tokenIds).toEqual(expectedTokens(asked.prompt, asked.params, sizes.context));
  }
  expect(Math.max(...late.bursts.map(({ k }) => k))).toBe(64);
  expect(problems).toEqual([]);
});

describe("pages at rest of a model with windows", () => {
  const windows = [null, 40];
  const arrive = () => Promise.resolve();

  function keeping(shelf: Shelf, more: Partial<EngineOptions> = {}, pages = 200) {
    return made({ windows, pages, arrive }, { atRest: shelf.keeping, ...more });
  }

  /** A shelf with what an engine had after answering. */
  async function filled(pages = 200): Promise<Shelf> {
    const shelf = new Shelf();
    const { say, timers } = keeping(shelf, {}, pages);
    await say(PROMPT, 60);
    await timers.pass();
    return shelf;
  }

  test("begin the next engine's answer, those only that the window needs", async () => {
    const shelf = await filled();
    expect(shelf.pages.size).toBe(2 * 16); // 259 tokens, all of both groups
    const { say, engine } = keeping(shelf);
    expect(await say(PROMPT)).toBe(192);
    // Of the second group the token after 192 sees those from 153 on.
    expect(engine.stats().pagesRestored).toBe(12 + 3);
    expect(await say(PROMPT.slice(0, 100))).toBe(96);
  });

  test("are not all there where their room was needed, and fewer tokens come from them", async () => {
    const shelf = await filled(17 + 12);
    expect(shelf.pages.size).toBeLessThan(2 * 16);
    const { say } = keeping(shelf);
    const answer = expectedTokens(
      PROMPT,
      request(PROMPT, { maxTokens: 60, ...ALL }).params,
      CONTEXT,
    );
    expect(await say([...PROMPT, ...answer, 1])).toBe(256);
    const { say: again } = keeping(shelf);
    expect(await again(PROMPT.slice(0, 50))).toBe(0);
  });

  test("are used as far as they are whole", async () => {
    const shelf = await filled();
    const { say: cold, engine } = keeping(new Shelf());
    await cold(PROMPT.slice(0, 1));
    const keys = [...shelf.pages.keys()];
    // A page that is listed and cannot be read.
    shelf.hides = new Set(keys.slice(20, 22));
    const { say } = keeping(shelf);
    const cached = await say(PROMPT);
    expect(cached).toBeLessThan(192);
    expect(engine.check()).toEqual([]);
  });

  test("come with the bundle, and go on from what is kept", async () => {
    const shelf = await filled();
    const shipped = new Parcel(shelf);
    const { say, engine } = made(
      { windows, arrive },
      { atRest: restingOn({ pages: null, shipped }) },
    );
    expect(await say(PROMPT)).toBe(192);
    expect(engine.stats()).toMatchObject({ prefixBundleTokens: 192, pagesRestored: 0 });
    shipped.most = 0;
    const { say: other } = made(
      { windows, arrive },
      { atRest: restingOn({ pages: shelf, shipped }) },
    );
    expect(await other(PROMPT)).toBe(192);
  });

  test("take the place of those in memory while nobody asks for anything", async () => {
    const shelf = new Shelf();
    const atRest = restingOn({ pages: shelf, shipped: null }, 1000);
    const { say, engine, timers, program } = made(
      { windows, pages: 8, arrive },
      { atRest, pages: 200 },
    );
    await say(PROMPT, 60);
    await timers.pass();
    expect(engine.stats()).toMatchObject({ pagesCached: 0, pagesFree: 8 });
    expect(program.pages).toBe(8);
    expect(await say(PROMPT, 60)).toBe(192);
  });

  test.each([1, 2, 3, 4])("are never wrong, whatever is there of them (seed %i)", async (seed) => {
    const choices = new Random(seed);
    const shelf = new Shelf();
    const roots = [PROMPT, promptOf(choices, 120)];
    let hits = 0;
    let running = keeping(shelf, {}, 60);
    for (let round = 0; round < 40; round++) {
      const begin = choices.pick(roots).slice(0, choices.whole(1, 200));
      const prompt = [...begin, ...promptOf(choices, choices.whole(0, 30))];
      hits += Number((await running.say(prompt, choices.whole(1, 40))) > 0);
      if (choices.chance(0.6)) await running.timers.pass(choices.whole(1, 20));
      for (const key of [...shelf.pages.keys()]) if (choices.chance(0.05)) shelf.pages.delete(key);
      shelf.hides = new Set([...shelf.pages.keys()].filter(() => choices.chance(0.02)));
      if (!choices.chance(0.4)) continue;
      running.engine.close();
      running = keeping(shelf, {}, choices.whole(50, 90));
    }
    expect(hits).toBeGreaterThan(5);
  });
});
