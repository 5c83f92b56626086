/** Guessed tokens, verified several at a time: the text is the same, and comes in fewer steps. */

import { describe, expect, test } from "vitest";
import type { GenerateOptions } from "../../../client/types.ts";
import { lookupDrafts } from "../../../engine/drafts/drafting.ts";
import type { EngineOptions } from "../../../engine/engine.ts";
import { MAX_BIAS } from "../../../engine/sampling.ts";
import { expectedTokens, VOCAB } from "../expected.ts";
import { Random } from "../random.ts";
import type { ReferenceOptions } from "../reference-bundle.ts";
import { makeEngine, promptOf, request, textOf, tokensOf } from "../support.ts";

/** Time stands still, so that verifying is priced as it is before it has been measured. */
const GUESSING: Partial<EngineOptions> = { drafter: lookupDrafts, clock: () => 0 };
const PAGES = { pages: 128, context: 512, maxBatch: 8 };

/** Only these tokens may come: the text soon repeats itself. */
function only(...tokens: readonly number[]): Omit<GenerateOptions, "signal"> {
  const others = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => !tokens.includes(id));
  return { logitBias: Object.fromEntries(others.map((id) => [id, -MAX_BIAS])), ignoreEos: true };
}

function engines(options: Partial<ReferenceOptions> = {}) {
  return makeEngine({ ...PAGES, ...options }, GUESSING);
}

/** Runs that draw tokens. */
function steps(runs: readonly { readonly plans: readonly string[]; readonly k: number }[]): number {
  const drawing = runs.filter(({ plans }) => /^(sample|decode)/.test(plans[0] ?? ""));
  return drawing.reduce((sum, { k }) => sum + k, 0);
}

describe("guesses", () => {
  test("give the same text in a fraction of the steps where it repeats", async () => {
    const { engine, program } = engines();
    const asked = request([5, 6, 7], { maxTokens: 200, ...only(9) });
    expect(await tokensOf(engine.submit(asked))).toEqual(
      expectedTokens(asked.prompt, asked.params, PAGES.context),
    );
    const { draftTokens, draftAcceptedTokens } = engine.stats();
    expect(steps(program.runs)).toBeLessThan(200 / 6);
    expect(draftAcceptedTokens).toBe(draftTokens);
    expect(draftAcceptedTokens).toBeGreaterThan(160);
    expect(engine.check()).toEqual([]);
  });

  test("are soon given up where the text never repeats", async () => {
    const { engine, program } = engines();
    const asked = request([5, 6, 7], { maxTokens: 200, ignoreEos: true });
    expect(await tokensOf(engine.submit(asked))).toEqual(
      expectedTokens(asked.prompt, asked.params, PAGES.context),
    );
    const { draftTokens, draftAcceptedTokens } = engine.stats();
    expect(draftTokens - draftAcceptedTokens).toBeLessThan(30);
    expect(steps(program.runs)).toBeLessThanOrEqual(200 + draftTokens);
  });

  test("are none unless asked for", async () => {
    const { engine } = makeEngine(PAGES);
    await engine.submit(request([5], { maxTokens: 60, ...only(9) })).completion;
    expect(engine.stats()).toMatchObject({ draftTokens: 0, draftAcceptedTokens: 0 });
  });

  test("are none for more sequences than have arithmetic to spare", async () => {
    const { engine } = engines();
    const asked = Array.from({ length: 5 }, (_, i) =>
      request([i + 20], { maxTokens: 40, ...only(9) }),
    );
    await Promise.all(asked.map((one) => tokensOf(engine.submit(one))));
    const alone = engines().engine;
    await alone.submit(request([20], { maxTokens: 40, ...only(9) })).completion;
    expect(engine.stats().draftTokens).toBeLessThan(alone.stats().draftTokens);
  });

  test.each([
    ["penalties", { presencePenalty: 0.5 }],
    ["tokens it has yet to have", { minTokens: 40 }],
  ])("are none of what %s decide about", async (_, options) => {
    const { engine } = engines();
    const asked = request([5], { maxTokens: 40, ...only(9), ...options });
    expect(await tokensOf(engine.submit(asked))).toEqual(
      expectedTokens(asked.prompt, asked.params, PAGES.context),
    );
    expect(engine.stats().draftTokens).toBe(0);
  });

  test("end where the answer does: at stop strings, end tokens and the most tokens", async () => {
    const { engine } = engines();
    const looping = { maxTokens: 90, ...only(8, 40) };
    const whole = expectedTokens([5], request([5], looping).params, PAGES.context);
    const stop = textOf(whole.slice(40, 43));
    const text = textOf(whole);
    const stopped = await engine.submit(request([5], { ...looping, stop })).completion;
    expect(stopped.text).toBe(text.slice(0, text.indexOf(stop)));
    const ended = request([5], { ...looping, ...only(3, 9), ignoreEos: false });
    expect(await tokensOf(engine.submit(ended))).toEqual(
      expectedTokens(ended.prompt, ended.params, PAGES.context),
    );
    expect(await tokensOf(engine.submit(request([5], { ...looping, maxTokens: 7 })))).toEqual(
      whole.slice(0, 7),
    );
    expect(engine.check()).toEqual([]);
  });

  test("tell how likely each token was, and of no others", async () => {
    const { engine, program } = engines();
    const asked = request([5], { maxTokens: 80, ...only(8, 40), logprobs: true, topLogprobs: 2 });
    const running = engine.submit(asked);
    const tokens = await tokensOf(running);
    expect(tokens).toEqual(expectedTokens(asked.prompt, asked.params, PAGES.context));
    expect(running.logprobs.map(({ tokenId }) => tokenId)).toEqual(tokens);
    expect(engine.stats().draftAcceptedTokens).toBeGreaterThan(0);
    expect(steps(program.runs)).toBeLessThan(80);
  });

  test("fail a sequence whose logits are not finite, and no other", async () => {
    const { engine } = makeEngine({ ...PAGES, spoiler: 40 }, GUESSING);
    const other = request([5], { maxTokens: 30, ...only(8) });
    const spoiled = engine.submit(request([7], { maxTokens: 90, ...only(8, 40) }));
    const sound = engine.submit(other);
    await expect(spoiled.completion).rejects.toMatchObject({ code: "engine.not_finite" });
    expect(await tokensOf(sound)).toEqual(expectedTokens([5], other.params, PAGES.context));
    expect(engine.check()).toEqual([]);
  });
});

test("answers are the same with guesses as without, whatever is asked at once", async () => {
  const random = new Random(11);
  for (let round = 0; round < 40; round++) {
    const { engine } = engines({
      pages: random.whole(30, 90),
      prefillChunk: random.pick([4, 16, 64]),
      maxBatch: random.whole(1, 8),
    });
    const asked = Array.from({ length: random.whole(1, 6) }, () => {
      const tokens = promptOf(random, random.whole(1, 3));
      return request(promptOf(random, random.whole(1, 40)), {
        maxTokens: random.whole(1, 90),
        ...(random.chance(0.8) ? only(...tokens) : {}),
        ignoreEos: random.chance(0.7),
        ...(random.chance(0.4) ? { temperature: 1, seed: random.whole(0, 2 ** 40) } : {}),
        ...(random.chance(0.2) ? { presencePenalty: 0.5 } : {}),
        ...(random.chance(0.2) ? { logprobs: true } : {}),
      });
    });
    const running = asked.map((one) => engine.submit(one));
    for (const [i, one] of asked.entries()) {
      const got = running[i];
      if (!got) throw new Error("nothing runs");
      expect(await tokensOf(got)).toEqual(expectedTokens(one.prompt, one.params, PAGES.context));
    }
    expect(engine.check()).toEqual([]);
  }
});
