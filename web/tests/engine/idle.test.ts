/** Memory of conversations that nobody goes on with is given back, and nothing of them is computed again. */

import { describe, expect, test } from "vitest";
import { expectedTokens } from "./expected.ts";
import { AFTER, ALL, BEGINNING, FIRST, making, OTHER, PROMPT, SAVED } from "./idle-engine.ts";
import { Random } from "./random.ts";
import { Parcel, restingOn, Shelf } from "./shelf.ts";
import { promptOf, request, tokensOf, turn } from "./support.ts";

describe("an engine that nobody has asked anything for a while", () => {
  test("lets go of all pages, and its memory is what it was in the beginning", async () => {
    const shelf = new Shelf();
    const { say, clock, program, engine, computed } = making(shelf);
    expect([program.pages, program.counters.bytes]).toEqual([FIRST, BEGINNING]);
    await say(PROMPT);
    expect(program.pages).toBeGreaterThan(7);
    await clock.advance(AFTER - 1);
    expect(engine.stats()).toMatchObject({ pagesSaved: 7, pagesSpilled: 0, pagesCached: 7 });
    await clock.advance(1);
    expect(engine.stats()).toMatchObject({
      ...{ pages: FIRST, pagesFree: FIRST, pagesCached: 0 },
      ...{ pagesSaved: 7, pagesSpilled: 7, pagesFailure: null },
    });
    expect(program.counters).toMatchObject({ bytes: BEGINNING, shrinks: 1 });
    expect(engine.check()).toEqual([]);
    computed();
    expect(await say(PROMPT)).toBe(96);
    expect([computed(), engine.stats().pagesRestored]).toEqual([4, 6]);
  });

  test("goes on with each of several conversations as if nothing had been", async () => {
    const shelf = new Shelf();
    const { say, clock, engine, computed } = making(shelf);
    const alike = [...PROMPT.slice(0, 40), ...OTHER];
    for (const prompt of [PROMPT, OTHER, alike]) {
      await say(prompt);
      await clock.advance(SAVED);
    }
    for (let round = 0; round < 3; round++) {
      await clock.advance(2 * AFTER);
      expect(engine.stats()).toMatchObject({ pages: FIRST, pagesCached: 0 });
      computed();
      expect(await say(PROMPT)).toBe(96);
      expect(await say(OTHER)).toBe(48);
      expect(await say(alike)).toBe(96);
      expect(computed()).toBe(4 + 12 + 4);
    }
    expect(engine.stats().pagesSaved).toBe(shelf.pages.size);
  });

  test.each([
    ["at once", 0, 10_000],
    ["never", null, 2 ** 31],
  ] as const)("does so %s where that is wanted", async (when, spillAfter, ms) => {
    const { say, clock, program, engine } = making(new Shelf(), { spillAfter });
    await say(PROMPT);
    await clock.advance(ms);
    const never = when === "never";
    expect(engine.stats()).toMatchObject({ pagesSaved: 7, pagesSpilled: never ? 0 : 7 });
    expect(program.pages === FIRST).toBe(!never);
  });

  test("waits anew after each answer", async () => {
    const { say, clock, engine } = making(new Shelf());
    await say(PROMPT);
    await clock.advance(AFTER - 1);
    expect(await say(PROMPT)).toBe(96);
    await clock.advance(AFTER - 1);
    expect(engine.stats().pagesSpilled).toBe(0);
    await clock.advance(1);
    expect(engine.stats().pagesSpilled).toBe(7);
  });

  test("does so once nobody sees it, and not while it answers", async () => {
    const { say, clock, engine } = making(new Shelf());
    engine.seen(false);
    await clock.advance(AFTER);
    engine.seen(true);
    await say(PROMPT);
    await clock.advance(1000);
    expect(engine.stats().pagesSpilled).toBe(0);
    engine.seen(false);
    await clock.advance(0);
    expect(engine.stats()).toMatchObject({ pagesSpilled: 7, pages: FIRST });
    const running = say(OTHER);
    await running;
    await clock.advance(1000);
    expect(engine.stats().pagesCached).toBe(0);
    engine.seen(true);
    await say(OTHER);
    await clock.advance(1000);
    expect(engine.stats().pagesCached).toBeGreaterThan(0);
  });

  test("lets go of what came with the bundle, too", async () => {
    const filled = new Shelf();
    const first = making(filled);
    await first.say(PROMPT);
    await first.clock.advance(AFTER);
    const atRest = restingOn({ pages: null, shipped: new Parcel(filled) }, AFTER);
    const { say, clock, engine } = making(new Shelf(), { engine: { atRest } });
    for (let round = 1; round < 3; round++) {
      expect(await say(PROMPT)).toBe(96);
      await clock.advance(AFTER);
      // What this one has computed is nowhere else: it stays, with what is before it.
      expect(engine.stats()).toMatchObject({ pagesSpilled: 0, pagesCached: 7 });
    }
  });
});

describe("what cannot be had again stays", () => {
  test.each(["nothing is kept", "there is nowhere to keep it"])("all, where %s", async (why) => {
    const shelf = new Shelf();
    shelf.keeps = () => false;
    const nowhere = restingOn({ pages: null, shipped: null }, AFTER);
    const engine = why === "nothing is kept" ? {} : { atRest: nowhere };
    const made = making(shelf, { engine });
    await made.say(PROMPT);
    await made.clock.advance(3 * AFTER);
    expect(made.engine.stats()).toMatchObject({ pagesSpilled: 0, pagesCached: 7 });
    made.computed();
    expect(await made.say(PROMPT)).toBe(96);
    expect(made.computed()).toBe(4);
  });

  test("a page that could not be saved, with those before it; what follows goes", async () => {
    const shelf = new Shelf();
    shelf.keeps = (nth) => nth !== 3;
    const { say, clock, engine, program, computed } = making(shelf);
    await say(PROMPT);
    await clock.advance(AFTER - 1);
    shelf.keeps = () => false;
    await clock.advance(SAVED);
    expect(engine.stats()).toMatchObject({ pagesSpilled: 4, pagesCached: 3, pages: FIRST });
    expect(program.counters.bytes).toBe(BEGINNING);
    computed();
    expect(await say(PROMPT)).toBe(96);
    expect(computed()).toBe(4);
  });

  test("a page whose file has gone is written again, or stays", async () => {
    const shelf = new Shelf();
    const { say, clock, engine } = making(shelf);
    await say(PROMPT);
    await clock.advance(1000);
    const [first = ""] = shelf.pages.keys();
    shelf.pages.delete(first);
    shelf.keeps = () => false;
    await clock.advance(AFTER);
    expect(engine.stats()).toMatchObject({ pagesSpilled: 6, pagesCached: 1 });
    shelf.keeps = () => true;
    expect(await say(PROMPT)).toBe(96);
    await clock.advance(AFTER + SAVED);
    expect(engine.stats()).toMatchObject({ pagesCached: 0, pages: FIRST });
    expect(shelf.pages.has(first)).toBe(true);
  });

  test("memory does as far as pages lie in it, where they lie far behind", async () => {
    const shelf = new Shelf();
    const { say, clock, engine, program } = making(shelf);
    await Promise.all([say(PROMPT), say(OTHER)]);
    const { pages } = program;
    shelf.keeps = (nth) => nth < 8;
    await clock.advance(AFTER);
    const left = engine.stats();
    expect(left.pagesCached).toBeGreaterThan(0);
    expect(left.pages).toBeLessThanOrEqual(pages);
    expect(left.pages).toBeGreaterThan(FIRST);
    expect(program.pages).toBe(left.pages);
    expect([await say(PROMPT), await say(OTHER)]).toEqual([96, 48]);
  });
});

describe("who asks in the middle of it", () => {
  test("waits for no write, and nothing is let go of before it is quiet again", async () => {
    const shelf = new Shelf();
    const { say, clock, engine, program } = making(shelf, { spillAfter: 0 });
    await say(PROMPT);
    const release = shelf.hold();
    await clock.advance(0);
    await turn();
    const asked = request(PROMPT, { maxTokens: 20, ...ALL });
    const running = engine.submit(asked);
    expect(await tokensOf(running)).toEqual(expectedTokens(PROMPT, asked.params));
    expect((await running.completion).usage.cachedTokens).toBe(96);
    release();
    await turn();
    expect(engine.stats().pagesSpilled).toBe(0);
    await clock.advance(1000);
    expect(engine.stats()).toMatchObject({ pagesCached: 0, pages: FIRST });
    expect(program.counters.bytes).toBe(BEGINNING);
  });

  test("after any number of steps of it is told the same, and has computed nothing twice", async () => {
    for (let steps = 0; steps < 40; steps++) {
      const { say, clock, computed, engine } = making(new Shelf(), { spillAfter: 0 });
      await say(PROMPT);
      computed();
      await clock.advance(5 * (steps % 10));
      for (let i = 0; i < Math.floor(steps / 10); i++) await turn();
      expect(await say(PROMPT)).toBe(96);
      expect(computed()).toBe(4);
      await clock.advance(1000);
      expect(engine.stats()).toMatchObject({ pagesCached: 0, pages: FIRST });
    }
  });

  test("while memory becomes smaller goes on in what is left, and has more made after it", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const arrive = async ({ plans }: { readonly plans: readonly string[] }) => {
      if (plans[0] === "shrink") await held;
    };
    const { say, clock, engine, program } = making(new Shelf(), { program: { arrive } });
    await say(PROMPT);
    await clock.advance(AFTER);
    expect([engine.stats().pages, program.counters.shrinks]).toEqual([FIRST, 0]);
    expect(await say(OTHER.slice(0, 30), 9)).toBe(0);
    expect(program.counters.shrinks).toBe(0);
    const long = say(PROMPT);
    await turn();
    release();
    expect(await long).toBe(96);
    expect(program.counters.shrinks).toBe(1);
  });
});

test("whatever comes and goes, answers are right and pages accounted for", async () => {
  const choices = new Random(78);
  const shelf = new Shelf();
  shelf.arrive = async () => {
    if (choices.chance(0.3)) await turn();
  };
  const roots = [PROMPT, OTHER];
  const { say, clock, engine, program } = making(shelf, { program: { room: 40 } });
  for (let round = 0; round < 150; round++) {
    shelf.keeps = () => choices.chance(0.9);
    const begin = choices.pick(roots).slice(0, choices.whole(1, 100));
    const prompt = [...begin, ...promptOf(choices, choices.whole(0, 30))];
    const asked = [say(prompt, choices.whole(1, 30))];
    if (choices.chance(0.3)) asked.push(say(choices.pick(roots), 5));
    await Promise.all(asked);
    if (choices.chance(0.6)) await clock.advance(choices.pick([10, 250, AFTER - 10, AFTER + 3000]));
    if (choices.chance(0.2)) engine.seen(choices.chance(0.5));
    if (choices.chance(0.1)) engine.forgetPages();
    for (const key of [...shelf.pages.keys()]) if (choices.chance(0.02)) shelf.pages.delete(key);
    expect(engine.check()).toEqual([]);
  }
  const { pagesSpilled, pagesRestored } = engine.stats();
  expect(pagesSpilled).toBeGreaterThan(100);
  expect(pagesRestored).toBeGreaterThan(100);
  expect(program.counters.shrinks).toBeGreaterThan(5);
});
