import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type Bound,
  type Continuations,
  FLOAT16,
  FLOAT32,
  INTEGERS,
  isNearTie,
  readExpected,
} from "./expected.ts";
import type { AdapterName } from "./launch.ts";
import type {} from "./pages/library.ts";
import { FULL } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "/bundles/demo-q4/";
const AT_ONCE = 8;

interface Case {
  readonly adapter: AdapterName;
  readonly program: string;
  /** The engine chooses it by itself. */
  readonly chosen?: boolean;
  /** Python's programs it is compared with, and how far two logits may be apart. */
  readonly against: readonly (readonly [string, Bound])[];
}

const CASES: readonly Case[] = [
  {
    adapter: "lavapipe",
    program: "webgpu-f32",
    against: [
      ["webgpu-f32", FLOAT32],
      ["cpu", INTEGERS],
    ],
  },
  {
    adapter: "lavapipe",
    program: "webgpu-f16-subgroups",
    // The bound holds between f32 and f16, too.
    against: [[FULL ? "webgpu-f16-subgroups" : "webgpu-f32", FLOAT16]],
  },
  // Barriers cost it most: the engine finds out which program has none.
  {
    adapter: "swiftshader",
    program: "webgpu-f32-serial",
    chosen: true,
    against: [
      ["webgpu-f32", FLOAT32],
      ["cpu", INTEGERS],
    ],
  },
];

describe.each(CASES)("$program on $adapter", ({ adapter, program, chosen, against }) => {
  let session: Session;
  let say: Say;
  const expected = readExpected();

  beforeAll(async () => {
    session = await openSession(adapter);
    const page = await session.library();
    const options = chosen ? {} : { program };
    const loaded = await page.evaluate(({ url, options }) => library.load("demo", url, options), {
      url: BUNDLE,
      options,
    });
    expect(loaded).toMatchObject({ value: { program } });
    say = asking(page);
  });
  afterAll(() => session?.close());

  it.each(against)(
    "says what Python's %s says, but for near ties",
    async (name, bound) => {
      const python = expected.programs[name];
      if (!python) throw new Error(`nothing expected of ${name}`);
      const compared = await compare(say, expected.prompts, python, bound);
      expect(compared.wrong).toEqual([]);
      expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
    },
    600_000,
  );
});

/** The tokens that greedily follow a prompt. */
type Say = (prompt: readonly number[], maxTokens: number) => Promise<readonly number[]>;

/** Asks a page, but nothing twice: two programs of Python's mostly say the same. */
function asking(page: Page): Say {
  const said = new Map<string, Promise<readonly number[]>>();
  const ask: Say = async (prompt, maxTokens) => {
    const answer = await page.evaluate(
      ({ prompt, maxTokens }) =>
        library.generate("demo", prompt, { maxTokens, temperature: 0, ignoreEos: true }),
      { prompt, maxTokens },
    );
    if ("error" in answer) throw new Error(answer.error.message);
    expect(answer.value.tokenIds).toHaveLength(maxTokens);
    return answer.value.tokenIds;
  };
  return (prompt, maxTokens) => {
    const key = [maxTokens, ...prompt].join(" ");
    const answer = said.get(key) ?? ask(prompt, maxTokens);
    said.set(key, answer);
    return answer;
  };
}

interface Compared {
  tokens: number;
  equal: number;
  /** Where another token was chosen although Python's led clearly. */
  readonly wrong: string[];
}

/**
 * Generate after every prompt and compare token by token. Where a near tie went the other way, go on
 * from Python's tokens, so that all of them are compared.
 */
async function compare(
  say: Say,
  prompts: readonly (readonly number[])[],
  python: Continuations,
  bound: Bound,
): Promise<Compared> {
  const compared: Compared = { tokens: 0, equal: 0, wrong: [] };
  const one = async (index: number): Promise<void> => {
    const tokens = python.tokens[index] ?? [];
    for (let at = 0; at < tokens.length; ) {
      const prompt = [...(prompts[index] ?? []), ...tokens.slice(0, at)];
      const found = await say(prompt, tokens.length - at);
      let same = 0;
      while (same < found.length && found[same] === tokens[at + same]) same += 1;
      compared.equal += same;
      at += same;
      if (at < tokens.length) {
        if (!isNearTie(python, index, at, bound))
          compared.wrong.push(`prompt ${index}, token ${at}`);
        at += 1;
      }
    }
    compared.tokens += tokens.length;
  };
  const waiting = prompts.keys();
  const worker = async () => {
    for (const index of waiting) await one(index);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return compared;
}
