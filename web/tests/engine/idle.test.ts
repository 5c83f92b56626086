/** Memory of conversations that nobody goes on with is given back, and nothing of them is computed again. */

import { describe, expect, test } from "vitest";
import type { EngineOptions } from "../../engine/engine.ts";
import { EdgewiseError } from "../../errors.ts";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { clearPages } from "../../kv/clearing.ts";
import { PageStore } from "../../kv/page-store.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { makeOrigin } from "../store/origin.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import type { ReferenceOptions } from "./reference-bundle.ts";
import { Clock, Parcel, restingOn, Shelf } from "./shelf.ts";
import { makeEngine, promptOf, request, tokensOf, turn } from "./support.ts";

const random = new Random(53);
const PROMPT = promptOf(random, 100);
const OTHER = promptOf(random, 60);
const ALL = { ignoreEos: true };
/** Pages that engines here begin with, and may have. */
const [FIRST, MOST] = [4, 64];
const BEGINNING = FIRST * PAGE_TOKENS * 4;
const AFTER = 60_000;
/** Within so many milliseconds all is saved that there is. */
const SAVED = 1000;

interface Making {
  readonly spillAfter?: number | null;
  readonly program?: Partial<ReferenceOptions>;
  readonly engine?: Partial<EngineOptions>;
}

function making(shelf: Shelf, { spillAfter = AFTER, program = {}, engine = {} }: Making = {}) {
  const clock = new Clock();
  const made = makeEngine(
    { pages: FIRST, context: 400, ...program },
    {
      pages: MOST,
      atRest: restingOn({ pages: shelf, shipped: null }, spillAfter),
      timer: clock.timer,
      ...engine,
    },
  );
  /** Ask, and look whether it says what it must; how many tokens came from pages. */
  const say = async (prompt: readonly number[], maxTokens = 20) => {
    const asked = request(prompt, { maxTokens, ...ALL });
    const { tokenIds, usage } = await made.engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(prompt, asked.params));
    expect(made.engine.check()).toEqual([]);
    await turn();
    return usage.cachedTokens;
  };
  /** Tokens that prefill was given since this was asked last. */
  let before = 0;
  const computed = () => {
    const all = made.program.runs
      .filter(({ plans }) => plans[0]?.startsWith("embed"))
      .reduce((sum, { rows }) => sum + rows, 0);
    const since = all - before;
    before = all;
    return since;
  };
  return { ...made, clock, say, computed };
}

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

describe("what goes wrong", () => {
  const held = () => {
    let release = () => {};
    const holding = new Promise<void>((resolve) => {
      release = resolve;
    });
    const arrive = async ({ plans }: { readonly plans: readonly string[] }) => {
      if (plans[0] === "shrink") await holding;
    };
    return { arrive, release: () => release() };
  };

  test.each(["while a page is saved", "while memory becomes smaller"])(
    "a device that goes away %s costs nothing but what was in it",
    async (when) => {
      const shelf = new Shelf();
      const { arrive, release } = held();
      const { say, clock, engine, program } = making(shelf, { program: { arrive } });
      await say(PROMPT);
      const shelved = when === "while a page is saved" ? shelf.hold() : release;
      await clock.advance(AFTER);
      program.lose();
      await turn();
      shelved();
      engine.replaceProgram(new ReferenceProgram({ pages: FIRST, context: 400 }), MOST);
      await clock.advance(1);
      const asked = request(PROMPT, { maxTokens: 20, ...ALL });
      const tokens = await tokensOf(engine.submit(asked));
      expect(tokens).toEqual(expectedTokens(PROMPT, asked.params));
      expect(engine.check()).toEqual([]);
      await clock.advance(AFTER);
      expect(engine.stats()).toMatchObject({ pagesCached: 0, pages: FIRST });
    },
  );

  test.each(["while a page is saved", "while memory becomes smaller"])(
    "closing %s ends it",
    async (when) => {
      const shelf = new Shelf();
      const { arrive, release } = held();
      const { say, clock, engine, program } = making(shelf, { program: { arrive } });
      await say(PROMPT);
      const shelved = when === "while a page is saved" ? shelf.hold() : release;
      await clock.advance(AFTER);
      engine.close();
      program.close();
      shelved();
      await clock.advance(AFTER);
      expect(engine.stats()).toMatchObject({ running: 0, waiting: 0, pagesFailure: null });
    },
  );

  test("no room for smaller buffers: more is held than is needed", async () => {
    const { say, clock, engine, program } = making(new Shelf());
    program.shrink = () => Promise.reject(new EdgewiseError("device.memory", "There is no room."));
    await say(PROMPT);
    await clock.advance(AFTER);
    expect(engine.stats()).toMatchObject({ pages: FIRST, pagesCached: 0 });
    expect(await say(PROMPT)).toBe(96);
  });

  test("memory that others took meanwhile: conversations are as long as what is left allows", async () => {
    const told: number[] = [];
    const room = { room: 20 };
    const onContext = (tokens: number) => told.push(tokens);
    const { say, clock, engine, program } = making(new Shelf(), {
      program: room,
      engine: { onContext },
    });
    await say(PROMPT);
    await say(OTHER, 150);
    await clock.advance(AFTER);
    program.grow = () => Promise.reject(new EdgewiseError("device.memory", "There is no room."));
    const running = engine.submit(request(OTHER.slice(0, 30), { maxTokens: 100, ...ALL }));
    expect((await running.completion).finishReason).toBe("length");
    expect([told, engine.context]).toEqual([[64], 64]);
    expect(engine.check()).toEqual([]);
  });

  test("a device without room for more pages: those of idle conversations have gone before it is asked", async () => {
    const shelf = new Shelf();
    const { say, engine, program, clock } = making(shelf, { program: { room: 12 } });
    await say(PROMPT);
    await clock.advance(1000);
    await say(OTHER, 100);
    expect(program.pages).toBeLessThanOrEqual(12);
    const { pagesCached, pages } = engine.stats();
    expect(pagesCached).toBeLessThanOrEqual(pages);
    expect(await say(PROMPT)).toBe(96);
  });

  test("saving that fails is told of, and tried again only when memory is to be given back", async () => {
    const shelf = new Shelf();
    const { say, clock, engine, program } = making(shelf);
    const readPage = program.readPage.bind(program);
    let reads = 0;
    program.readPage = async () => {
      reads += 1;
      throw new EdgewiseError("device.read", "The page cannot be read.");
    };
    await say(PROMPT);
    await clock.advance(1000);
    await say(PROMPT);
    await clock.advance(1000);
    const failed = { pagesFailure: "The page cannot be read.", pagesSaved: 0, pagesCached: 7 };
    expect([reads, engine.stats()]).toMatchObject([1, failed]);
    await clock.advance(AFTER);
    expect([reads, engine.stats()]).toMatchObject([2, failed]);
    program.readPage = readPage;
    await say(PROMPT);
    await clock.advance(AFTER + SAVED);
    const well = { pagesFailure: null, pagesSaved: 7, pagesSpilled: 7 };
    expect(engine.stats()).toMatchObject(well);
  });

  test("after pages were forgotten saving is tried again at once", async () => {
    const shelf = new Shelf();
    const { say, clock, engine, program } = making(shelf);
    const readPage = program.readPage.bind(program);
    program.readPage = () => Promise.reject(new EdgewiseError("device.read", "It cannot be read."));
    await say(PROMPT);
    await clock.advance(1000);
    engine.forgetPages();
    program.readPage = readPage;
    expect(engine.stats()).toMatchObject({ pagesFailure: null, pagesCached: 0 });
    expect(await say(OTHER)).toBe(0);
    await clock.advance(1000);
    expect(shelf.pages.size).toBe(4);
  });
});

describe("pages that are to be forgotten while they are saved", () => {
  /** An engine over a store whose next write waits. */
  async function filling() {
    const files = await FileStore.open(makeOrigin().root);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let writes = 0;
    const store: Store = new Proxy(files, {
      get(target, name) {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== "function") return found;
        if (name !== "write") return found.bind(target);
        return async (...given: unknown[]) => {
          writes += 1;
          if (writes === 3) await held;
          return Reflect.apply(found, target, given);
        };
      },
    });
    const options = { producer: "it", pageBytes: 4 * PAGE_TOKENS, limit: 1 << 20 };
    const pages = await PageStore.open(store, options);
    const made = making(new Shelf(), { engine: { atRest: restingOn({ pages, shipped: null }) } });
    await made.say(PROMPT);
    while (writes < 3) await made.clock.advance(SAVED);
    /** Let all be saved that will be. */
    const save = async () => {
      for (let page = 0; page < 10; page++) {
        await made.clock.advance(SAVED);
        await pages.writable();
      }
    };
    const done = () => {
      release();
      return save();
    };
    return { ...made, files, pages, done, save };
  }

  test("by the engine's own page are not there afterwards, in storage nor in memory", async () => {
    const { engine, pages, files, done, say } = await filling();
    engine.forgetPages();
    const cleared = pages.clear();
    await done();
    await cleared;
    expect([pages.stored.pages, (await files.list()).length]).toEqual([0, 0]);
    expect(engine.stats().pagesCached).toBe(0);
    expect(await say(PROMPT)).toBe(0);
  });

  test("by another page before something else is said: that is kept", async () => {
    const { files, done, say, save } = await filling();
    await done();
    await clearPages(files);
    expect(await say(PROMPT)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(7);
    expect(await say(PROMPT)).toBe(96);
  });

  test("by another page before something short is said: its answer's pages are kept", async () => {
    const { files, done, say, save } = await filling();
    await done();
    await clearPages(files);
    expect(await say(OTHER.slice(0, PAGE_TOKENS - 4), 2 * PAGE_TOKENS)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(2);
  });

  test("by another page are not there either, once the writer has heard of it", async () => {
    const { engine, pages, files, done, say, save } = await filling();
    await clearPages(files);
    await done();
    expect([pages.stored.pages, (await files.list()).length]).toEqual([0, 0]);
    expect(engine.stats().pagesCached).toBe(0);
    expect(await say(OTHER)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(4); // of what was said since
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
