/** Bursts under a mask: what is said is what it would be one token at a time, in fewer submissions. */

import { describe, expect, it } from "vitest";
import type { GenerateOptions } from "../../client/types.ts";
import { type Constraint, Guide } from "../../engine/constraint.ts";
import type { EngineOptions, Request } from "../../engine/engine.ts";
import { free, held } from "../../engine/held.ts";
import { Sequence } from "../../engine/sequence.ts";
import { Matcher } from "../../grammar/matcher.ts";
import { lowerRegex } from "../../grammar/regex.ts";
import { lowerSchema } from "../../grammar/schema/lower.ts";
import { Triggered } from "../../grammar/triggered.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { EOS, expectedTokens, VOCAB } from "./expected.ts";
import { Maze } from "./maze.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import type { ReferenceOptions, RunRecord } from "./reference-bundle.ts";
import { makeEngine, promptOf, request, textOf, tokenizer, tokensOf, turn } from "./support.ts";

const CONTEXT = 256;

type Asked = Request & { readonly constraint: Constraint | null };

function asked(
  random: Random,
  constraint: Constraint | null,
  options: Omit<GenerateOptions, "signal">,
): Asked {
  const drawn = { temperature: 1, seed: random.whole(0, 2 ** 40), ...options };
  return { ...request(promptOf(random, random.whole(1, 50)), drawn), constraint };
}

const told = ({ prompt, params, constraint }: Asked) =>
  expectedTokens(prompt, params, CONTEXT, EOS, constraint);

const decodes = (runs: readonly RunRecord[]) =>
  runs.filter(({ plans: [first = ""] }) => first.startsWith("decode") || first === "forward");

async function said(
  requests: readonly Request[],
  options: Partial<ReferenceOptions> = {},
  engineOptions: Partial<EngineOptions> = {},
) {
  const { engine, program } = makeEngine({ pages: 64, ...options }, engineOptions);
  const running = requests.map((one) => engine.submit(one));
  const completions = await Promise.all(running.map(({ completion }) => completion));
  expect(engine.check()).toEqual([]);
  return { completions, bursts: decodes(program.runs), runs: program.runs };
}

const MORE: Readonly<Record<string, Omit<GenerateOptions, "signal">>> = {
  "no end tokens": { ignoreEos: true },
  "end tokens": {},
  penalties: { ignoreEos: true, presencePenalty: 0.75, repetitionPenalty: 1.25 },
  "tokens that end it": { ignoreEos: true, stopTokenIds: [20, 40] },
  "so many tokens at least": { minTokens: 15 },
  "no temperature": { ignoreEos: true, temperature: 0 },
};

const ids = (completions: readonly { readonly tokenIds: readonly number[] }[]) =>
  completions.map(({ tokenIds }) => tokenIds);
const texts = (completions: readonly { readonly text: string }[]) =>
  completions.map(({ text }) => text);

describe.each([
  ["with masks made meanwhile", true],
  ["with masks made before", false],
])("answers in bursts, %s", (_, forward) => {
  describe.each(Object.keys(MORE))("and %s", (name) => {
    it.each([0, 1, 2, 3, 4, 5])(
      "are what they are one token at a time, in maze %i",
      async (seed) => {
        const random = new Random(seed);
        const options = { maxTokens: 70, ...MORE[name] };
        const mazes = [0, 1, 2].map((i) => new Maze(8 * seed + i, i === 0 ? 5 : -1));
        const requests = [...mazes, null].map((maze) => asked(random, maze, options));
        const all = await said(requests, { forward });
        const alone = await Promise.all(requests.map((one) => said([one], { forward })));
        const single = await said(requests, { forward }, { maxBurst: 1 });
        const expected = requests.map(told);
        expect(ids(all.completions)).toEqual(expected);
        expect(ids(alone.flatMap(({ completions }) => completions))).toEqual(expected);
        expect(ids(single.completions)).toEqual(expected);
        expect(texts(all.completions)).toEqual(texts(single.completions));
        expect(all.bursts.length).toBeLessThanOrEqual(single.bursts.length);
      },
    );
  });
});

it.each([0, 1, 2, 3, 4, 5, 6, 7])(
  "a stop string ends them where it ends others, %i",
  async (seed) => {
    const open = asked(new Random(seed), new Maze(seed), { maxTokens: 60, ignoreEos: true });
    const whole = textOf(told(open));
    const stop = whole.slice(30, 32);
    const given = { ...open, params: { ...open.params, stop: [stop] } };
    const { completions } = await said([given]);
    const text = whole.slice(0, whole.indexOf(stop));
    expect(completions[0]).toMatchObject({ finishReason: "stop", text });
  },
);

describe.each([0, 1, 2, 3])("a lost device, in maze %i", (seed) => {
  it.each([1, 2, 4, 6, 9, 13, 18, 25])("costs no token after %i turns", async (turns) => {
    const { engine, program } = makeEngine({ pages: 64, arrive: turn });
    const random = new Random(seed);
    const options = { maxTokens: 60, ignoreEos: true, frequencyPenalty: 0.5 };
    const requests = [new Maze(seed), new Maze(seed + 10), null].map((maze) =>
      asked(random, maze, options),
    );
    const running = requests.map((one) => engine.submit(one));
    for (let i = 0; i < turns; i++) await turn();
    program.lose();
    await turn();
    engine.replaceProgram(new ReferenceProgram({ pages: 64 }));
    expect(await Promise.all(running.map(tokensOf))).toEqual(requests.map(told));
    expect(engine.check()).toEqual([]);
  });
});

it("what was drawn in vain is in no page that another finds", async () => {
  const random = new Random(1);
  for (let seed = 0; seed < 12; seed++) {
    const first = asked(random, new Maze(seed), { maxTokens: 70, ignoreEos: true });
    const { engine } = makeEngine({ pages: 64 });
    const tokens = await tokensOf(engine.submit(first));
    const next = request([...first.prompt, ...tokens, 5], { maxTokens: 10 });
    const { tokenIds, usage } = await engine.submit(next).completion;
    expect(tokenIds).toEqual(expectedTokens(next.prompt, next.params));
    const written = first.prompt.length + tokens.length - 1;
    expect(usage.cachedTokens).toBe(16 * Math.floor(written / 16));
  }
});

it("logits that are not finite after what is dropped end nothing", async () => {
  const outcomes = new Set<boolean>();
  for (let seed = 0; seed < 60; seed++) {
    const random = new Random(seed);
    const spoiler = random.whole(12, VOCAB - 1);
    const one = asked(random, new Maze(seed), { maxTokens: 60, ignoreEos: true });
    const prompt = one.prompt.map((token) => (token === spoiler ? 5 : token));
    const given = { ...one, prompt };
    const expected = told(given);
    const spoiled = expected.slice(0, -1).includes(spoiler);
    const { engine } = makeEngine({ pages: 64, spoiler });
    const { completion } = engine.submit(given);
    if (spoiled) await expect(completion).rejects.toMatchObject({ code: "engine.not_finite" });
    else expect((await completion).tokenIds).toEqual(expected);
    outcomes.add(spoiled);
  }
  expect(outcomes.size).toBe(2);
});

/** Tokens of letters, and of what JSON needs; the others have no text. */
const SPELLED = [..."abcdefghijklmnopqrstuvwxyz 0123456789{}:,.#", '"', "th", "er", " in", " o"];
const bytes = SPELLED.map((text) => new TextEncoder().encode(text));
for (const end of EOS) bytes.splice(end, 0, new Uint8Array());
const vocabulary = new Vocabulary(Array.from({ length: VOCAB }, (_, id) => bytes[id] ?? null));
const byText = new Map(bytes.map((text, id) => [new TextDecoder().decode(text), id]));
const encode = (text: string) => [...text].map((character) => byText.get(character) ?? -1);

const properties = { text: { type: "string" }, kind: { enum: ["a", "b"] } };
const strict = { type: "object", properties, required: ["text", "kind"] };
const schema = lowerSchema({ ...strict, additionalProperties: false });
const call = { rules: new Map([["root", lowerRegex("(add|sub) [0-9]{1,3}\\.")]]), root: "root" };
const trigger = new TextEncoder().encode("#");

describe("submissions", () => {
  /** How many there are for some answers, and for their tokens. */
  async function counted(made: () => Matcher) {
    const count = { tokens: 0, submissions: 0, masks: 0, longest: 0 };
    for (let seed = 0; seed < 12; seed++) {
      const constraint = held(made(), encode);
      const one = asked(new Random(seed), constraint, { maxTokens: 150, ignoreEos: true });
      const { completions, bursts, runs } = await said([one]);
      expect(ids(completions)).toEqual([told(one)]);
      const written = runs.flatMap((run) => run.written);
      count.tokens += told(one).length;
      count.submissions += bursts.length;
      count.masks += written.filter((name) => name === "grammar_mask").length;
      count.longest = Math.max(count.longest, ...bursts.map(({ k }) => k));
    }
    return count;
  }

  it("are far fewer than tokens in the text of strings, and masks fewer yet", async () => {
    const { tokens, submissions, masks, longest } = await counted(
      () => new Matcher(schema, vocabulary),
    );
    expect(longest).toBe(8);
    expect(submissions).toBeLessThan(tokens / 5);
    expect(masks).toBeLessThan(submissions / 2);
  });

  it("are as long as others in free text, until a call begins", async () => {
    const matcher = new Matcher(call, vocabulary);
    const made = () => new Triggered(matcher, [trigger], "free", vocabulary);
    const { tokens, submissions, longest } = await counted(made);
    expect(longest).toBe(8);
    expect(submissions).toBeLessThan(tokens / 2.5);
    const freely = asked(new Random(1), new Maze(0), { maxTokens: 24, ignoreEos: true });
    const guided = { ...freely, constraint: free(VOCAB) };
    const { bursts } = await said([guided, { ...guided, constraint: null }]);
    expect(bursts.map(({ k }) => k)).toEqual([1, 1, 2, 4, 8, 8]);
  });
});

/** Rooms one after the other, of each the token that may come, or another. */
function rooms(tokens: readonly number[]): Constraint {
  return {
    start: 0,
    mask: (state) => Uint32Array.of(1 << (tokens[state] ?? 0), 1),
    advance: (state) => state + 1,
    mayEnd: () => false,
    mustEnd: () => false,
    free: () => false,
    forcedTokens: () => [],
  };
}

it("a burst whose last token leads elsewhere says so where more was drawn, were it no token", () => {
  const burst = (drawn: number) => {
    const one = { ...asked(new Random(1), rooms([5, 5, 5, 6]), {}), prompt: [1] };
    const sequence = new Sequence(one, { tokenizer, eos: EOS, context: 99, clock: () => 0 });
    sequence.mask(2);
    return [sequence.accept([5, 5, 5], drawn), sequence.tokens.length, sequence.unseen];
  };
  expect(burst(3)).toEqual([false, 3, 2]);
  expect(burst(4)).toEqual([true, 3, 1]);
});

describe("a guide", () => {
  const matcher = new Matcher(schema, vocabulary);
  const words = Math.ceil(VOCAB / 32);
  const guideAt = (text: string) => new Guide(held(matcher, encode), encode(text));
  const begun = '{"text": "';

  it("has the same array for the same mask, and hopes for as many as there were", () => {
    const guide = guideAt(begun);
    const mask = guide.mask(words, []);
    expect(guide.steady).toBe(0);
    for (const [i, token] of encode("abcdefg").entries()) {
      guide.follow(token);
      if (i % 2 === 0) expect(guide.goesOn([])).toBe(true);
      else expect(guide.mask(words, [])).toBe(mask);
      expect(guide.steady).toBe(i + 1);
    }
  });

  it("does not go on where another token may come, or must", () => {
    const guide = guideAt(begun);
    guide.mask(words, []);
    expect(guide.follow(encode('"')[0] ?? -1)).toBe(true);
    expect(guide.goesOn([])).toBe(false);
    expect(guide.steady).toBe(0);
    const forced = new Guide({ ...rooms([5, 5]), forcedTokens: (state) => (state ? [5] : []) }, []);
    forced.mask(words, []);
    forced.follow(5);
    expect(forced.goesOn([])).toBe(false);
  });

  it.each([
    [[5, 5, 5, 5, 6, 5], 3],
    [[5, 5, 5, 5, 6, 6, 6, 5], 3],
    [[5, 5, 5, 5, 6, 5, 5, 7, 5], 1],
    [[5, 5, 6, 6, 6, 6, 5], 0],
    [[5, 5, 5, 5, 6, 5, 5, 5, 5, 5], 4],
  ])("knows the mask again that stayed longest, in %j", (tokens, steady) => {
    const guide = new Guide(rooms(tokens), []);
    const masks = tokens.map((_, room) => {
      if (room > 0) guide.follow(0);
      return guide.mask(words, []);
    });
    expect(masks.at(-1)).toBe(masks[0]);
    expect(guide.steady).toBe(steady);
  });

  it("remembers no free text, whose bursts are long anyway", () => {
    const freely = (state: number) => state > 3 && state < 20;
    const tokens = [...new Array(4).fill(5), ...new Array(16).fill(0), 5];
    const guide = new Guide({ ...rooms(tokens), free: freely }, []);
    const masks = tokens.map((_, room) => {
      if (room > 0) guide.follow(0);
      return guide.mask(words, []);
    });
    expect([masks[4], masks.at(-1)]).toEqual([null, masks[0]]);
    expect(guide.steady).toBe(3);
  });
});
