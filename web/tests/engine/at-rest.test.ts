/** Pages that outlive an engine: another one finds them, computes nothing of them, and says the same. */

import { describe, expect, test } from "vitest";
import type { EngineOptions } from "../../engine/engine.ts";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import type { ReferenceOptions } from "./reference-bundle.ts";
import { Parcel, restingOn, Shelf, Timers } from "./shelf.ts";
import { makeEngine, promptOf, request, tokensOf, turn } from "./support.ts";

const random = new Random(41);
const PROMPT = promptOf(random, 100);
const ALL = { ignoreEos: true };

function keeping(
  shelf: Shelf,
  options: Partial<ReferenceOptions> = {},
  more: Partial<EngineOptions> = {},
) {
  const timers = new Timers();
  const made = makeEngine(
    { pages: 64, ...options },
    { atRest: shelf.keeping, timer: timers.timer, ...more },
  );
  const say = async (prompt: readonly number[], maxTokens = 20) => {
    const asked = request(prompt, { maxTokens, ...ALL });
    const { tokenIds, usage } = await made.engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(prompt, asked.params));
    expect(made.engine.check()).toEqual([]);
    return usage.cachedTokens;
  };
  /** Tokens that prefill was given. */
  const computed = () =>
    made.program.runs
      .filter(({ plans }) => plans[0]?.startsWith("embed"))
      .reduce((sum, { rows }) => sum + rows, 0);
  return { ...made, timers, say, computed };
}

/** A shelf with what an engine had after answering a prompt. */
async function filled(prompt: readonly number[], maxTokens = 20): Promise<Shelf> {
  const shelf = new Shelf();
  const { say, timers, engine } = keeping(shelf);
  expect(await say(prompt, maxTokens)).toBe(0);
  await timers.pass();
  expect(engine.stats().pagesSaved).toBe(shelf.pages.size);
  return shelf;
}

describe("pages at rest", () => {
  test("are found by the next engine, which computes the rest only", async () => {
    const shelf = await filled(PROMPT);
    expect(shelf.pages.size).toBe(7); // 119 tokens are in KV
    const { say, computed, engine } = keeping(shelf);
    expect(await say(PROMPT)).toBe(96);
    expect(computed()).toBe(4);
    expect(engine.stats()).toMatchObject({ pagesRestored: 6, prefixHitTokens: 96 });
  });

  test("are found by another conversation as far as it begins alike", async () => {
    const shelf = await filled(PROMPT);
    const { say, computed } = keeping(shelf);
    const other = [...PROMPT.slice(0, 70), ...promptOf(random, 60)];
    expect(await say(other)).toBe(64);
    expect(computed()).toBe(130 - 64);
  });

  test("of answers are found too", async () => {
    const shelf = await filled(PROMPT, 60);
    const answer = expectedTokens(PROMPT, request(PROMPT, { maxTokens: 60, ...ALL }).params);
    const { say } = keeping(shelf);
    expect(await say([...PROMPT, ...answer, 5, 6, 7])).toBe(144);
  });

  test("go on where memory has the first of them", async () => {
    const shelf = await filled(PROMPT);
    const { say, engine } = keeping(shelf);
    expect(await say([...PROMPT.slice(0, 40), 3])).toBe(32);
    shelf.asked.length = 0;
    expect(await say(PROMPT)).toBe(96);
    expect(engine.stats().pagesRestored).toBe(6);
    expect(shelf.asked).toHaveLength(4);
  });

  test.each(["missing", "of another size"])("are used up to one that is %s", async (how) => {
    const shelf = await filled(PROMPT);
    const [, , , fourth = ""] = shelf.pages.keys();
    if (how === "missing") shelf.pages.delete(fourth);
    else shelf.pages.set(fourth, new Uint8Array(3));
    const { say, timers } = keeping(shelf);
    expect(await say(PROMPT)).toBe(how === "missing" ? 48 : 0);
    await timers.pass();
    const { say: again } = keeping(shelf);
    expect(await again(PROMPT)).toBe(how === "missing" ? 96 : 0);
  });

  test("are not looked for by prompts that fill none", async () => {
    const shelf = await filled(PROMPT);
    const { say } = keeping(shelf);
    shelf.asked.length = 0;
    await say(PROMPT.slice(0, 16));
    expect(shelf.asked).toEqual([]);
  });

  test("take the room of what was not used for longest, never of their own beginning", async () => {
    const shelf = await filled(PROMPT);
    const { say, engine } = keeping(shelf, { pages: 9, context: 144 });
    await say(promptOf(random, 100));
    expect(await say(PROMPT)).toBe(96);
    expect(engine.stats()).toMatchObject({ pagesRestored: 6 });
  });

  test("have more pages made where there may be more", async () => {
    const shelf = await filled(PROMPT);
    const { say, program, engine } = keeping(shelf, { pages: 2 }, { pages: 64 });
    expect(await say(PROMPT)).toBe(96);
    expect(program.counters.growths).toBeGreaterThan(0);
    expect(engine.stats().pagesRestored).toBe(6);
  });

  test("do with the room there is where the device has no more", async () => {
    const shelf = await filled(PROMPT);
    const { engine, say } = keeping(shelf, { pages: 4, room: 4 }, { pages: 64 });
    const asked = request(PROMPT, { maxTokens: 2 });
    await expect(engine.submit(asked).completion).rejects.toMatchObject({ code: "device.memory" });
    expect(engine.check()).toEqual([]);
    expect(await say(PROMPT.slice(0, 50), 4)).toBeGreaterThan(0);
  });
});

describe("pages of the bundle", () => {
  test("begin answers where nothing is kept here", async () => {
    const shipped = new Parcel(await filled(PROMPT));
    const atRest = restingOn({ pages: null, shipped });
    const { say, computed, engine, timers } = keeping(new Shelf(), {}, { atRest });
    expect(await say(PROMPT)).toBe(96);
    expect(computed()).toBe(4);
    expect(engine.stats()).toMatchObject({ prefixBundleTokens: 96, pagesRestored: 0 });
    await timers.pass();
    expect(engine.stats().pagesSaved).toBe(0);
  });

  test("come after those that are kept, and are not kept again", async () => {
    const shelf = await filled(PROMPT);
    const shipped = new Parcel(shelf);
    for (const key of [...shelf.pages.keys()].slice(2)) shelf.pages.delete(key);
    const atRest = restingOn({ pages: shelf, shipped });
    const { say, computed, engine, timers } = keeping(shelf, {}, { atRest });
    expect(await say(PROMPT)).toBe(96);
    expect(computed()).toBe(4);
    expect(engine.stats()).toMatchObject({ prefixBundleTokens: 64, pagesRestored: 2 });
    await timers.pass();
    expect(shelf.pages.size).toBe(3); // the one that this engine has computed
  });

  test("go on to those that are kept behind them", async () => {
    const shelf = await filled(PROMPT);
    const shipped = new Parcel(shelf);
    for (const key of [...shelf.pages.keys()].slice(0, 2)) shelf.pages.delete(key);
    shipped.most = 2;
    const { say, engine } = keeping(shelf, {}, { atRest: restingOn({ pages: shelf, shipped }) });
    expect(await say(PROMPT)).toBe(96);
    expect(engine.stats()).toMatchObject({ prefixBundleTokens: 32, pagesRestored: 4 });
  });

  test("are asked for a few at a time, by who knows how fast prompts were computed", async () => {
    const long = promptOf(random, 200);
    const shipped = new Parcel(await filled(long));
    const atRest = restingOn({ pages: null, shipped });
    let now = 0;
    const clock = () => now++;
    const { say, computed } = keeping(new Shelf(), {}, { atRest, clock });
    expect(await say(long)).toBe(192);
    expect(computed()).toBe(8);
    expect(shipped.asked).toEqual([
      [8, null],
      [4, null],
    ]);
    await say(PROMPT);
    expect(shipped.asked.at(-1)).toEqual([6, expect.any(Number)]);
  });

  test("are computed where they do not come", async () => {
    const shipped = new Parcel(await filled(PROMPT));
    shipped.most = 0;
    const atRest = restingOn({ pages: null, shipped });
    const { say, engine } = keeping(new Shelf(), {}, { atRest });
    expect(await say(PROMPT)).toBe(0);
    expect(engine.stats().prefixBundleTokens).toBe(0);
  });
});

describe("saving", () => {
  test("waits until there is nothing to do, and stops where there is again", async () => {
    const shelf = new Shelf();
    const { engine, say, timers } = keeping(shelf);
    const running = engine.submit(request(PROMPT, { maxTokens: 20, ...ALL }));
    await turn();
    expect(shelf.pages.size).toBe(0);
    await running.completion;
    await timers.pass(2);
    const some = shelf.pages.size;
    expect(some).toBeGreaterThan(0);
    expect(some).toBeLessThan(7);
    const other = say([...PROMPT.slice(0, 20), ...promptOf(random, 40)]);
    await other;
    expect(shelf.pages.size).toBeLessThanOrEqual(some + 1);
    await timers.pass();
    expect(shelf.pages.size).toBe(7 + 3);
  });

  test("reads nothing twice, and nothing that came from there", async () => {
    const shelf = await filled(PROMPT);
    const { say, timers, program, engine } = keeping(shelf);
    let read = 0;
    const readPage = program.readPage.bind(program);
    program.readPage = (page) => {
      read += 1;
      return readPage(page);
    };
    for (let i = 0; i < 3; i++) {
      await say(PROMPT);
      await timers.pass();
    }
    expect([read, engine.stats().pagesSaved]).toEqual([0, 0]);
  });
});

describe("what goes wrong", () => {
  test("a device that goes away while they are restored takes nobody's answer", async () => {
    const shelf = await filled(PROMPT);
    const first = keeping(shelf);
    const tell = shelf.hold();
    const asked = request(PROMPT, { maxTokens: 9, ...ALL });
    const running = first.engine.submit(asked);
    await turn();
    first.program.lose();
    await turn();
    tell();
    const { program } = makeEngine({ pages: 64 });
    first.engine.replaceProgram(program);
    expect(await tokensOf(running)).toEqual(expectedTokens(PROMPT, asked.params));
    expect(first.engine.check()).toEqual([]);
  });

  test("pages that cannot be written are not found", async () => {
    const shelf = await filled(PROMPT);
    const { say, program, engine } = keeping(shelf);
    const writePage = program.writePage.bind(program);
    let left = 2;
    program.writePage = (page, data) => {
      left -= 1;
      if (left < 0) throw new EdgewiseError("device.buffer", "There is no such page.");
      writePage(page, data);
    };
    expect(await say(PROMPT)).toBe(0);
    expect(engine.stats().pagesRestored).toBe(0);
  });

  test("whoever cancels or closes meanwhile is heard at once", async () => {
    const shelf = await filled(PROMPT);
    const { engine } = keeping(shelf);
    const tell = shelf.hold();
    const cancelled = engine.submit(request(PROMPT, { maxTokens: 9 }));
    const closed = engine.submit(request(PROMPT, { maxTokens: 9 }));
    await turn();
    cancelled.cancel();
    expect((await cancelled.completion).finishReason).toBe("cancelled");
    engine.close();
    await expect(closed.completion).rejects.toMatchObject({ code: "engine.closed" });
    tell();
    await turn();
    expect(engine.stats()).toMatchObject({ running: 0, waiting: 0 });
  });
});

test("whatever comes and goes, answers are right and pages accounted for", async () => {
  const choices = new Random(77);
  const shelf = new Shelf();
  shelf.arrive = async () => {
    if (choices.chance(0.3)) await turn();
  };
  const roots = [PROMPT, promptOf(choices, 60)];
  let running = keeping(shelf, { pages: 24, context: 200 }, {});
  let restored = 0;
  for (let round = 0; round < 120; round++) {
    const begin = choices.pick(roots).slice(0, choices.whole(1, 100));
    const prompt = [...begin, ...promptOf(choices, choices.whole(0, 30))];
    const maxTokens = choices.whole(1, 30);
    const asked = [running.say(prompt, maxTokens)];
    if (choices.chance(0.3)) asked.push(running.say(choices.pick(roots), 5));
    await Promise.all(asked);
    if (choices.chance(0.5)) await running.timers.pass(choices.whole(1, 8));
    for (const key of [...shelf.pages.keys()]) if (choices.chance(0.02)) shelf.pages.delete(key);
    if (choices.chance(0.3)) {
      restored += running.engine.stats().pagesRestored;
      running.engine.close();
      running = keeping(shelf, { pages: choices.whole(16, 40), context: 200 });
    }
  }
  expect(restored).toBeGreaterThan(50);
});
