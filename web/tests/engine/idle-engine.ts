/** An engine whose idle conversations may be let go of, for tests of that. */

import { expect } from "vitest";
import type { EngineOptions } from "../../engine/engine.ts";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import type { ReferenceOptions } from "./reference-bundle.ts";
import { Clock, restingOn, type Shelf } from "./shelf.ts";
import { makeEngine, promptOf, request, turn } from "./support.ts";

const random = new Random(53);
export const PROMPT = promptOf(random, 100);
export const OTHER = promptOf(random, 60);
export const ALL = { ignoreEos: true };
/** Pages that engines here begin with, and may have. */
export const [FIRST, MOST] = [4, 64];
export const BEGINNING = FIRST * PAGE_TOKENS * 4;
export const AFTER = 60_000;
/** Within so many milliseconds all is saved that there is. */
export const SAVED = 1000;

export interface Making {
  readonly spillAfter?: number | null;
  readonly program?: Partial<ReferenceOptions>;
  readonly engine?: Partial<EngineOptions>;
}

/** An engine of little memory whose time the test lets pass, and what says something to it. */
export function making(
  shelf: Shelf,
  { spillAfter = AFTER, program = {}, engine = {} }: Making = {},
) {
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
