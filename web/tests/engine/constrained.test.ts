/** Answers that must follow a constraint: what is drawn, what is known without drawing, and how they end. */

import { describe, expect, it } from "vitest";
import type { GenerateOptions } from "../../client/types.ts";
import type { Constraint } from "../../engine/constraint.ts";
import type { Request } from "../../engine/engine.ts";
import { EOS, nextToken, VOCAB } from "./expected.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { makeEngine, promptOf, request, textIn, textOf, turn } from "./support.ts";

const WORDS = Math.ceil(VOCAB / 32);

/** An answer of so many tokens, each one of those of its place. It may end early where `early` says so. */
class Places implements Constraint {
  readonly start = 0;
  masks = 0;
  private readonly places: readonly (readonly number[])[];
  private readonly early: ReadonlySet<number>;
  private readonly forces: boolean;

  constructor(
    places: readonly (readonly number[])[],
    { early = [], forces = true }: { early?: readonly number[]; forces?: boolean } = {},
  ) {
    this.places = places;
    this.early = new Set(early);
    this.forces = forces;
  }

  mask(state: number): Uint32Array {
    this.masks += 1;
    const mask = new Uint32Array(WORDS);
    for (const token of this.places[state] ?? []) {
      mask[token >>> 5] = (mask[token >>> 5] ?? 0) | (1 << (token & 31));
    }
    return mask;
  }

  advance(state: number, token: number): number | null {
    return this.places[state]?.includes(token) ? state + 1 : null;
  }

  mayEnd(state: number): boolean {
    return this.mustEnd(state) || this.early.has(state);
  }

  mustEnd(state: number): boolean {
    return state === this.places.length;
  }

  free(): boolean {
    return false;
  }

  forcedTokens(state: number): readonly number[] {
    const forced: number[] = [];
    for (let at = state; this.forces && !this.early.has(at); at++) {
      const [only, ...others] = this.places[at] ?? [];
      if (only === undefined || others.length > 0) break;
      forced.push(only);
    }
    return forced;
  }
}

/** Places of some tokens, every third of which are forced runs. */
function places(random: Random, count: number): number[][] {
  const any = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => !EOS.includes(id));
  return Array.from({ length: count }, (_, i) => {
    const most = i % 6 < 3 ? 1 : random.whole(2, 9);
    const found = new Set(
      Array.from({ length: most }, () => any[random.whole(0, any.length - 1)] ?? 0),
    );
    return [...found];
  });
}

/** What has to come of a request, from nothing but its places. */
function expectedOf({ prompt, params }: Request, places: readonly (readonly number[])[]): number[] {
  const tokens: number[] = [];
  for (const place of places.slice(0, params.maxTokens)) {
    const history = [...prompt, ...tokens];
    const allows = (token: number) => place.includes(token);
    tokens.push(nextToken(history, history.length, params, params.seed ?? 0n, [], allows));
  }
  return tokens;
}

const draws = (options: Omit<GenerateOptions, "signal"> = {}) => ({
  maxTokens: 40,
  seed: 5,
  ...options,
});

describe.each([
  ["with masks made meanwhile", true],
  ["with masks made before", false],
])("constrained answers, %s", (_, forward) => {
  it.each([0, 0.8])("are drawn of what may come, at temperature %d", async (temperature) => {
    const { engine } = makeEngine({ pages: 32, forward });
    const random = new Random(3);
    const requests = Array.from({ length: 6 }, () => {
      const given = request(promptOf(random, random.whole(1, 40)), draws({ temperature }));
      const placed = places(random, random.whole(1, 30));
      return { ...given, placed, constraint: new Places(placed) };
    });
    const running = requests.map((one) => engine.submit(one));
    const done = await Promise.all(running.map(({ completion }) => completion));
    for (const [i, { tokenIds, finishReason, text }] of done.entries()) {
      const one = requests[i];
      if (!one) throw new Error("no request");
      expect(tokenIds).toEqual(expectedOf(one, one.placed));
      expect([finishReason, text]).toEqual(["stop", textOf(tokenIds)]);
    }
    expect(engine.check()).toEqual([]);
  });

  it("are told how likely each token was, those too that must come", async () => {
    const { engine, program } = makeEngine({ pages: 32, forward });
    const random = new Random(3);
    for (const temperature of [0, 0.8]) {
      const placed = places(random, 24);
      const given = request(promptOf(random, 20), draws({ temperature, logprobs: true }));
      const running = engine.submit({ ...given, constraint: new Places(placed) });
      const { tokenIds } = await running.completion;
      expect(tokenIds).toEqual(expectedOf(given, placed));
      expect(running.logprobs.map(({ tokenId }) => tokenId)).toEqual(tokenIds);
    }
    expect(program.runs.filter(({ plans }) => plans.includes("embed"))).toHaveLength(2);
    expect(engine.check()).toEqual([]);
  });

  it("leave others beside them what they are alone", async () => {
    const random = new Random(4);
    const free = request(promptOf(random, 9), { maxTokens: 30, ignoreEos: true });
    const alone = makeEngine({ pages: 32, forward });
    const expected = (await alone.engine.submit(free).completion).tokenIds;
    const { engine } = makeEngine({ pages: 32, forward });
    const placed = places(random, 20);
    const constrained = { ...request(promptOf(random, 5)), constraint: new Places(placed) };
    const [one, other] = [engine.submit(free), engine.submit(constrained)];
    expect((await one.completion).tokenIds).toEqual(expected);
    expect((await other.completion).tokenIds).toEqual(expectedOf(constrained, placed));
  });

  it("end with the last token that may come, or where an end token is drawn", async () => {
    const { engine } = makeEngine({ pages: 32, forward });
    const prompt = [7, 8];
    const placed = Array.from({ length: 30 }, () => [20, 21, 22]);
    const early = [...placed.keys()].slice(1);
    const given = request(prompt, draws({ temperature: 1 }));
    const { tokenIds, finishReason } = await engine.submit({
      ...given,
      constraint: new Places(placed, { early }),
    }).completion;
    const last = tokenIds.at(-1) ?? -1;
    const body = EOS.includes(last) ? tokenIds.slice(0, -1) : tokenIds;
    expect(finishReason).toBe("stop");
    expect(body.every((token) => [20, 21, 22].includes(token))).toBe(true);
    expect(EOS.includes(tokenIds[0] ?? -1)).toBe(false);
  });
});

describe("an answer that is to be longer", () => {
  const [end = 0] = EOS;

  it("does not end where it may go on", async () => {
    const { engine } = makeEngine({ pages: 32 });
    const constraint = new Places(
      [
        [20, 21],
        [22, 23],
        [24, 25],
        [26, 27],
      ],
      { early: [1, 2, 3] },
    );
    const given = request([1, 2], { ...draws(), minTokens: 4, logitBias: { [end]: 50 } });
    const { tokenIds } = await engine.submit({ ...given, constraint }).completion;
    expect(tokenIds).toHaveLength(4);
  });

  it("ends where nothing else may come", async () => {
    const { engine } = makeEngine({ pages: 32 });
    const constraint = new Places([[20, 21], []], { early: [1] });
    const given = request([1, 2], { ...draws(), minTokens: 8 });
    const { tokenIds, finishReason } = await engine.submit({ ...given, constraint }).completion;
    expect([tokenIds.length, finishReason]).toEqual([2, "stop"]);
    expect(EOS).toContain(tokenIds.at(-1));
    expect(engine.check()).toEqual([]);
  });
});

describe("tokens that must come", () => {
  const random = new Random(8);
  const prompt = promptOf(random, 30);
  const forced = Array.from({ length: 20 }, (_, i) => [12 + i]);
  const placed = [[40, 41], ...forced, [50, 51], [52, 53]];
  const asked = (forces: boolean) => ({
    ...request(prompt, draws()),
    constraint: new Places(placed, { forces }),
  });

  it("are read by prefill, and the answer is what it would be drawn one by one", async () => {
    const [known, drawn] = [makeEngine({ pages: 32 }), makeEngine({ pages: 32 })];
    const fast = await known.engine.submit(asked(true)).completion;
    const slow = await drawn.engine.submit(asked(false)).completion;
    expect(fast).toMatchObject({ tokenIds: slow.tokenIds, text: slow.text, usage: slow.usage });
    expect(known.program.runs.length).toBeLessThan(drawn.program.runs.length - 15);
  });

  it("may be all there is: then nothing is run", async () => {
    const { engine, program } = makeEngine({ pages: 32 });
    const constraint = new Places(forced);
    const running = engine.submit({ ...request(prompt, draws()), constraint });
    expect(await textIn(running)).toBe(textOf(forced.flat()));
    expect(await running.completion).toMatchObject({
      finishReason: "stop",
      tokenIds: forced.flat(),
    });
    expect(program.runs).toEqual([]);
  });

  it("may be none at all", async () => {
    const { engine, program } = makeEngine({ pages: 32 });
    const running = engine.submit({ ...request(prompt, draws()), constraint: new Places([]) });
    expect(await running.completion).toMatchObject({ finishReason: "stop", tokenIds: [] });
    expect(program.runs).toEqual([]);
  });

  it("are no more than were asked for", async () => {
    const { engine } = makeEngine({ pages: 32 });
    const given = { ...asked(true), ...request(prompt, draws({ maxTokens: 9 })) };
    const { tokenIds, finishReason } = await engine.submit(given).completion;
    expect(tokenIds).toEqual(expectedOf(given, placed));
    expect(finishReason).toBe("length");
  });

  it("are there after a prompt that is in pages already, and when others wait", async () => {
    const { engine } = makeEngine({ pages: 6, context: 96 });
    const given = asked(true);
    const all = await Promise.all([1, 2, 3].map(() => engine.submit(given).completion));
    for (const { tokenIds } of all) expect(tokenIds).toEqual(expectedOf(given, placed));
    expect(engine.check()).toEqual([]);
  });
});

it.each([0, 1, 2, 3, 5, 8])("a device lost after %i turns costs no token", async (turns) => {
  const { engine, program } = makeEngine({ pages: 32, arrive: turn });
  const placed = places(new Random(6), 24);
  const given = { ...request([1, 2, 3], draws()), constraint: new Places(placed) };
  const running = engine.submit(given);
  for (let i = 0; i < turns; i++) await turn();
  program.lose();
  await turn();
  engine.replaceProgram(new ReferenceProgram({ pages: 32 }));
  expect((await running.completion).tokenIds).toEqual(expectedOf(given, placed));
});

describe("an answer that goes on", () => {
  it("goes on in its constraint", async () => {
    const { engine } = makeEngine({ pages: 32 });
    const placed = places(new Random(5), 12);
    const prompt = [1, 2];
    const whole = expectedOf(request(prompt, draws()), placed);
    const begun = 5;
    const given = { ...request([...prompt, ...whole.slice(0, begun)], draws()), begun };
    const { tokenIds } = await engine.submit({ ...given, constraint: new Places(placed) })
      .completion;
    expect(tokenIds).toEqual(whole);
  });

  it("is refused where it does not follow it", () => {
    const { engine } = makeEngine({ pages: 32 });
    const constraint = new Places([[20], [21]]);
    const given = { ...request([1, 30], draws()), begun: 1, constraint };
    expect(() => engine.submit(given)).toThrow(expect.objectContaining({ code: "input.begun" }));
  });
});

describe("a constraint that fails", () => {
  it("ends its answer, and no other", async () => {
    const { engine } = makeEngine({ pages: 32 });
    const free = request([1, 2, 3], { maxTokens: 12, ignoreEos: true });
    const stuck = { ...request([4, 5], draws()), constraint: new Places([[20, 21], []]) };
    const [one, other] = [engine.submit(free), engine.submit(stuck)];
    await expect(other.completion).rejects.toMatchObject({ code: "constraint.stuck" });
    expect((await one.completion).tokenIds).toHaveLength(12);
    expect(engine.check()).toEqual([]);
  });

  it.each(["advance", "forcedTokens", "mustEnd", "mask"] as const)(
    "ends its answer alone where its %s throws",
    async (failing) => {
      const { engine } = makeEngine({ pages: 32 });
      const constraint = new Places([[20, 21], [22, 23], [24]]);
      const sound = new Places([[20, 21], [22, 23], [24]]);
      const found = (state: number, token: number): unknown => sound[failing](state, token);
      Object.defineProperty(constraint, failing, {
        value: (state: number, token: number) => {
          if (state > 0) throw new RangeError("no such state");
          return found(state, token);
        },
      });
      const free = request([1, 2, 3], { maxTokens: 12, ignoreEos: true });
      const failed = { ...request([4, 5], draws()), constraint };
      const [one, other] = [engine.submit(free), engine.submit(failed)];
      await expect(other.completion).rejects.toMatchObject({ code: "engine.constraint" });
      expect((await one.completion).tokenIds).toHaveLength(12);
      expect(engine.check()).toEqual([]);
    },
  );

  it("does not let a device draw what may not come", async () => {
    const { engine, program } = makeEngine({ pages: 32, forward: false });
    const run = program.run.bind(program);
    program.run = (...given: Parameters<typeof run>) => {
      program.corrupt("grammar_mask", 0, -1);
      program.corrupt("grammar_mask", 1, -1);
      return run(...given);
    };
    const given = { ...request([1, 2], draws()), constraint: new Places([[20], [21], [22, 23]]) };
    const { constraint } = given;
    constraint.forcedTokens = () => [];
    await expect(engine.submit(given).completion).rejects.toMatchObject({
      code: "device.output",
    });
  });
});
