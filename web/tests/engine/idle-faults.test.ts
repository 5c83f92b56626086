/** What fails while memory of idle conversations is given back costs nobody an answer. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "./expected.ts";
import { AFTER, ALL, FIRST, MOST, making, OTHER, PROMPT, SAVED } from "./idle-engine.ts";
import { ReferenceProgram } from "./reference.ts";
import { Shelf } from "./shelf.ts";
import { request, tokensOf, turn } from "./support.ts";

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
