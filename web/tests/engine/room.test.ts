/** Pages that are made when they are needed: what is said is the same as with all of them at once. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { makeEngine, promptOf, request, tokensOf, turn } from "./support.ts";

const random = new Random(31);
const PROMPT = promptOf(random, 37);
const ALL = { ignoreEos: true };
const FEW = { pages: 3, context: 256, arrive: turn };

describe("an engine that begins with few pages", () => {
  test("makes more while it answers, and says what it says with all of them", async () => {
    const { engine, program } = makeEngine(FEW, { pages: 16 });
    const asked = request(PROMPT, { maxTokens: 200, ...ALL });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(PROMPT, asked.params));
    // 37 tokens fit into 3 pages, 237 into 15: half as many more each time.
    const { growths, copiedBytes } = program.counters;
    expect([program.pages, growths]).toEqual([16, 4]);
    expect(copiedBytes).toBe((3 + 5 + 8 + 12) * 64);
    await turn();
    expect(engine.stats()).toMatchObject({ pages: 16, pagesFree: 2, pagesCached: 14 });
    expect(engine.check()).toEqual([]);
    await engine.submit(asked).completion;
    expect(program.counters.growths).toBe(4);
  });

  test("makes none where those it has do, and takes what nobody needs before it does", async () => {
    const { engine, program } = makeEngine({ ...FEW, pages: 8 }, { pages: 16 });
    for (let i = 0; i < 5; i++) {
      const asked = request(promptOf(random, 50 + i), { maxTokens: 60, ...ALL });
      const tokens = await tokensOf(engine.submit(asked));
      expect(tokens).toEqual(expectedTokens(asked.prompt, asked.params));
    }
    expect([program.pages, program.counters.growths]).toEqual([8, 0]);
  });

  test("keeps what it knows of a prompt when pages are added", async () => {
    const { engine, program } = makeEngine({ ...FEW, pages: 4 }, { pages: 16 });
    const first = await engine.submit(request(PROMPT, { maxTokens: 12, ...ALL })).completion;
    const prompt = [...PROMPT, ...first.tokenIds, 5];
    const asked = request(prompt, { maxTokens: 60, ...ALL });
    const { tokenIds, usage } = await engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(prompt, asked.params));
    expect([usage.cachedTokens, program.counters.growths]).toEqual([48, 2]);
  });

  test("reads a prompt that is longer than its memory was", async () => {
    const { engine, program } = makeEngine({ ...FEW, prefillChunk: 32 }, { pages: 16 });
    const prompt = promptOf(random, 200);
    const asked = request(prompt, { maxTokens: 5, ...ALL });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(prompt, asked.params));
    expect(program.pages).toBeLessThanOrEqual(16);
  });

  test("answers many at once as each alone", async () => {
    const { engine, program } = makeEngine(FEW, { pages: 40 });
    const asked = Array.from({ length: 7 }, (_, i) =>
      request(promptOf(random, 5 + 31 * (i % 4)), { maxTokens: 20 + 15 * i, ...ALL }),
    );
    const running = asked.map((one) => engine.submit(one));
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params)),
    );
    expect(program.counters.growths).toBeGreaterThan(1);
    expect(program.pages).toBeLessThanOrEqual(40);
    expect(engine.check()).toEqual([]);
  });

  test("promises no pages that there cannot be", async () => {
    const { engine, program } = makeEngine(FEW, { pages: 16 });
    const asked = [0, 1, 2].map(() => request(promptOf(random, 30), { maxTokens: 150, ...ALL }));
    const running = asked.map((one) => engine.submit(one));
    await turn();
    await turn();
    expect(engine.stats()).toMatchObject({ running: 1, waiting: 2 });
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params)),
    );
    expect(program.pages).toBe(12);
  });

  test("goes on after its device was lost while pages were made", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const arrive = async ({ plans }: { readonly plans: readonly string[] }) => {
      if (plans[0] === "grow") await held;
      else await turn();
    };
    const { engine, program } = makeEngine({ ...FEW, arrive }, { pages: 16 });
    const asked = request(PROMPT, { maxTokens: 100, ...ALL });
    const running = engine.submit(asked);
    for (let i = 0; i < 20; i++) await turn();
    program.lose();
    engine.replaceProgram(new ReferenceProgram(FEW));
    release();
    expect(await tokensOf(running)).toEqual(expectedTokens(PROMPT, asked.params));
    expect(engine.check()).toEqual([]);
  });

  test("hears of what else keeps pages from being made", async () => {
    const { engine, program } = makeEngine(FEW, { pages: 16 });
    program.grow = () => Promise.reject(new EdgewiseError("device.bind", "It cannot be bound."));
    const running = engine.submit(request(PROMPT, { maxTokens: 100, ...ALL }));
    await expect(running.completion).rejects.toMatchObject({ code: "device.bind" });
    const short = request(PROMPT.slice(0, 20), { maxTokens: 9, ...ALL });
    expect(await tokensOf(engine.submit(short))).toEqual(
      expectedTokens(short.prompt, short.params),
    );
  });
});

describe("where the device has no room", () => {
  test("an answer ends with the pages that there are, and says so", async () => {
    const contexts: number[] = [];
    const onContext = (tokens: number) => contexts.push(tokens);
    const { engine } = makeEngine({ ...FEW, room: 6 }, { pages: 16, onContext });
    const asked = request(PROMPT, { maxTokens: 200, ...ALL });
    const { tokenIds, finishReason } = await engine.submit(asked).completion;
    expect(tokenIds).toEqual(expectedTokens(PROMPT, asked.params, 96));
    expect([finishReason, contexts, engine.context]).toEqual(["length", [96], 96]);
    const again = request(promptOf(random, 50), { maxTokens: 200, ...ALL });
    const tokens = await tokensOf(engine.submit(again));
    expect(tokens).toEqual(expectedTokens(again.prompt, again.params, 96));
    expect(() => engine.submit(request(promptOf(random, 96)))).toThrow("the context holds 96");
    expect([contexts, engine.check()]).toEqual([[96], []]);
  });

  test("for half as many more, those that are needed may do", async () => {
    const { engine, program } = makeEngine({ ...FEW, pages: 8, room: 9 }, { pages: 16 });
    const asked = request(PROMPT, { maxTokens: 100, ...ALL });
    expect(await tokensOf(engine.submit(asked))).toEqual(expectedTokens(PROMPT, asked.params));
    expect(program.pages).toBe(9);
  });

  test("the youngest waits until the others are done", async () => {
    const { engine } = makeEngine({ ...FEW, room: 8 }, { pages: 32 });
    const asked = [40, 30, 20].map((length) =>
      request(promptOf(random, length), { maxTokens: 70, ...ALL }),
    );
    const running = asked.map((one) => engine.submit(one));
    expect(await Promise.all(running.map(tokensOf))).toEqual(
      asked.map(({ prompt, params }) => expectedTokens(prompt, params, 128)),
    );
    expect(engine.check()).toEqual([]);
  });

  test("a prompt that is too long for it is an error, and others are answered", async () => {
    const { engine } = makeEngine({ ...FEW, room: 6 }, { pages: 16 });
    const long = engine.submit(request(promptOf(random, 150), { maxTokens: 5, ...ALL }));
    const short = request(PROMPT, { maxTokens: 30, ...ALL });
    const after = engine.submit(short);
    await expect(long.completion).rejects.toMatchObject({ code: "device.memory" });
    expect(await tokensOf(after)).toEqual(expectedTokens(PROMPT, short.params));
    expect(engine.check()).toEqual([]);
  });
});
