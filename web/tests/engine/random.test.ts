/**
 * Whatever happens in whatever order, every request gets its own tokens, ends, and gives back what
 * it held: arrivals, cancellations, ends, failures, and devices that are lost and replaced.
 */

import { afterAll, beforeAll, expect, test } from "vitest";
import { lookupDrafts } from "../../engine/drafts/drafting.ts";
import type { GenerationEngine, Running } from "../../engine/engine.ts";
import { MAX_BIAS } from "../../engine/sampling.ts";
import type { Request } from "../../engine/sequence.ts";
import { EdgewiseError } from "../../errors.ts";
import { FULL } from "../suite.ts";
import { EOS, expectedTokens, VOCAB } from "./expected.ts";
import { Maze } from "./maze.ts";
import { poisoning } from "./poison.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { makeEngine, promptOf, request, textOf, turn } from "./support.ts";

const CONTEXT = 160;

/** What there is at first of the pages that there may be, and what the device has room for. */
const KINDS = {
  "all pages at once": { first: 1, room: 1 },
  "pages as they are needed": { first: 0.2, room: 1 },
  "no room for all pages": { first: 0.2, room: 0.5 },
} as const;
type Kind = keyof typeof KINDS;
type Windows = readonly (number | null)[];

let world: World;
let antidote: () => void;
beforeAll(() => {
  antidote = poisoning((pages) => world.poison(pages));
});
afterAll(() => antidote());

interface Asked {
  readonly request: Request;
  readonly running: Running;
  outcome: "waiting" | "done" | "failed";
}

/** Whatever time it was to take. */
function soon(_: number, call: () => void): () => void {
  const id = setImmediate(call);
  return () => clearImmediate(id);
}

/** Half of them have an end. */
function maze(random: Random): Maze {
  return new Maze(random.whole(0, 2 ** 20), random.chance(0.5) ? random.whole(1, 11) : -1);
}

/** Only a few tokens may come, so that text repeats itself. */
function few(random: Random): Record<number, number> {
  const some = promptOf(random, 2);
  const others = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => !some.includes(id));
  return Object.fromEntries(others.map((id) => [id, -MAX_BIAS]));
}

class World {
  readonly engine: GenerationEngine;
  readonly asked: Asked[] = [];
  failures = 0;
  private program: ReferenceProgram;
  private isLost = false;
  private readonly prompts: number[][] = [];
  private readonly random: Random;
  private readonly pages: number;
  private readonly kind: Kind;
  private readonly late: boolean;
  private readonly windows: Windows;
  private now = 0;

  /** @param late whether results are heard of every 100 ms only. */
  constructor(seed: number, kind: Kind, late: boolean, windows: Windows = [null]) {
    this.random = new Random(seed);
    this.kind = kind;
    this.windows = windows;
    this.pages = this.random.whole(10, 40) * windows.length;
    this.kind = kind;
    this.late = late;
    const { engine, program } = makeEngine(this.options(), {
      pages: this.pages,
      ...(late ? { clock: () => this.now, timer: soon } : {}),
      ...(this.random.chance(0.5) ? { drafter: lookupDrafts } : {}),
    });
    this.engine = engine;
    this.program = program;
  }

  async step(): Promise<void> {
    const rules: readonly [number, () => void][] = [
      [6, () => this.arrive()],
      [2, () => this.cancel()],
      [0.3, () => this.fail()],
      [0.4, () => this.lose()],
      [1, () => this.replace()],
      [12, () => {}],
    ];
    let at = this.random.next() * rules.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, rule] of rules) {
      at -= weight;
      if (at > 0) continue;
      rule();
      break;
    }
    for (let turns = this.random.whole(0, 3); turns > 0; turns--) await turn();
    expect(this.engine.check()).toEqual([]);
  }

  /** Nobody owns these pages any more. */
  poison(pages: readonly number[]): void {
    this.program.poison(pages);
  }

  /** Let everything come to its end. */
  async finish(): Promise<void> {
    this.replace();
    await Promise.allSettled(this.asked.map(({ running }) => running.completion));
    for (let i = 0; i < 8; i++) await turn();
    expect(this.engine.check()).toEqual([]);
    const { pages, pagesFree, pagesCached, running, waiting } = this.engine.stats();
    expect([running, waiting, pagesFree + pagesCached]).toEqual([0, 0, pages]);
    expect(pages).toBeLessThanOrEqual(this.part("room"));
    if (this.kind === "all pages at once") expect(pages).toBe(this.pages);
    expect(this.asked.every(({ outcome }) => outcome !== "waiting")).toBe(true);
  }

  private options() {
    const random = this.random;
    const arrive = async () => {
      for (let turns = random.whole(0, 2); turns > 0; turns--) await turn();
      if (this.late && random.chance(0.3)) this.now += 100;
    };
    const [pages, room] = [this.part("first"), this.part("room")];
    const { windows } = this;
    return { pages, room, windows, context: CONTEXT, prefillChunk: 32, maxBatch: 3, arrive };
  }

  private part(of: "first" | "room"): number {
    return Math.ceil(this.pages * KINDS[this.kind][of]);
  }

  private arrive(): void {
    const { random } = this;
    const fresh = this.prompts.length === 0 || random.chance(0.4);
    const begin = fresh ? promptOf(random, random.whole(1, 70)) : random.pick(this.prompts);
    const prompt = [...begin, ...promptOf(random, random.whole(0, 8))].slice(0, CONTEXT - 2);
    const options = {
      maxTokens: random.whole(0, 60),
      ignoreEos: random.chance(0.5),
      ...(random.chance(0.3) ? { temperature: 1, seed: random.whole(0, 2 ** 40) } : {}),
      ...(random.chance(0.3) ? { presencePenalty: 0.5 } : {}),
      ...(random.chance(0.2) ? { logitBias: { [random.whole(0, 60)]: 1.5 } } : {}),
      ...(random.chance(0.3) ? { logitBias: few(random) } : {}),
      ...(random.chance(0.3) ? { priority: random.whole(-2, 2) } : {}),
      ...(random.chance(0.2) ? { minTokens: random.whole(1, 12) } : {}),
      ...(random.chance(0.2) ? { stopTokenIds: [random.whole(0, 63)] } : {}),
      ...(random.chance(0.2) ? { stop: textOf([random.whole(0, 63)]) } : {}),
    };
    const constraint = random.chance(0.3) ? maze(random) : null;
    const asked = { ...request(prompt, options), constraint };
    if (prompt.length >= this.engine.context) return; // it has shrunk
    const running = this.engine.submit(asked);
    const one: Asked = { request: asked, running, outcome: "waiting" };
    this.asked.push(one);
    void this.watch(one);
  }

  /** What comes of a request is what the model says, as far as it got. */
  private async watch(one: Asked): Promise<void> {
    const { prompt, params, constraint } = one.request;
    try {
      const { tokenIds, finishReason, text } = await one.running.completion;
      let expected = expectedTokens(prompt, params, CONTEXT, EOS, constraint);
      const [stop] = params.stop;
      const stopped = stop === undefined ? -1 : textOf(expected).indexOf(stop);
      if (stopped >= 0) expected = expected.slice(0, stopped + 1);
      const full = finishReason === "length" && this.engine.context < CONTEXT;
      const cut = finishReason === "cancelled" || full ? tokenIds.length : expected.length;
      expect(tokenIds).toEqual(expected.slice(0, cut));
      const last = tokenIds.at(-1) ?? -1;
      const ends = [...params.stopTokenIds, ...(params.ignoreEos ? [] : EOS)].includes(last);
      const silent = finishReason === "stop" && (ends || stopped >= 0);
      expect(text).toBe(textOf(silent ? tokenIds.slice(0, -1) : tokenIds));
      one.outcome = "done";
      this.prompts.push([...prompt, ...tokenIds]);
    } catch (error) {
      const full = this.engine.context < CONTEXT ? ["device.memory"] : [];
      const known = ["device.kernel", ...full];
      if (!(error instanceof EdgewiseError) || !known.includes(error.code)) throw error;
      one.outcome = "failed";
      this.failures += 1;
    }
  }

  private cancel(): void {
    const open = this.asked.filter(({ outcome }) => outcome === "waiting");
    if (open.length > 0) this.random.pick(open).running.cancel();
  }

  private fail(): void {
    this.program.failNext(new EdgewiseError("device.kernel", "A kernel failed."));
  }

  private lose(): void {
    this.program.lose();
    this.isLost = true;
  }

  private replace(): void {
    if (!this.isLost) return;
    this.isLost = false;
    this.program = new ReferenceProgram(this.options());
    this.engine.replaceProgram(this.program);
  }
}

test.each([
  ...Array.from({ length: 20 }, (_, seed) => [seed, "all pages at once", seed >= 12] as const),
  ...Array.from({ length: 8 }, (_, seed) => [seed, "pages as they are needed", seed >= 6] as const),
  ...Array.from({ length: 8 }, (_, seed) => [seed, "no room for all pages", seed >= 6] as const),
])("in the order of seed %i, with %s, late: %s", async (seed, kind, late) => {
  await happen(new World(seed, kind, late));
});

const SEEDS = FULL ? 24 : 2;
const WINDOWED: readonly Windows[] = [[null, 40], [24], [null, 9, 70]];
const KINDS_OF_PAGES = Object.keys(KINDS) as Kind[];

test.each(
  WINDOWED.flatMap((windows) =>
    Array.from({ length: SEEDS }, (_, seed) => [windows, 100 + seed] as const),
  ),
)("with the windows %j, in the order of seed %i", async (windows, seed) => {
  const kind = KINDS_OF_PAGES[(seed + windows.length) % KINDS_OF_PAGES.length];
  await happen(new World(seed, kind ?? "all pages at once", seed % 4 === 3, windows));
});

async function happen(that: World): Promise<void> {
  world = that;
  for (let i = 0; i < 250; i++) await world.step();
  await world.finish();
  expect(world.asked.length).toBeGreaterThan(20);
}
