/**
 * Whatever happens in whatever order, every request gets its own tokens, ends, and gives back what
 * it held: arrivals, cancellations, ends, failures, and devices that are lost and replaced.
 */

import { expect, test } from "vitest";
import type { GenerationEngine, Running } from "../../engine/engine.ts";
import type { Request } from "../../engine/sequence.ts";
import { EdgewiseError } from "../../errors.ts";
import { EOS, expectedTokens } from "./expected.ts";
import { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import { makeEngine, promptOf, request, textOf, turn } from "./support.ts";

const CONTEXT = 160;

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

class World {
  readonly engine: GenerationEngine;
  readonly asked: Asked[] = [];
  failures = 0;
  private program: ReferenceProgram;
  private isLost = false;
  private readonly prompts: number[][] = [];
  private readonly random: Random;
  private readonly pages: number;
  private readonly late: boolean;
  private now = 0;

  /** @param late whether results are heard of every 100 ms only. */
  constructor(seed: number, late: boolean) {
    this.random = new Random(seed);
    this.pages = this.random.whole(10, 40);
    this.late = late;
    const { engine, program } = makeEngine(
      this.options(),
      late ? { clock: () => this.now, timer: soon } : {},
    );
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

  /** Let everything come to its end. */
  async finish(): Promise<void> {
    this.replace();
    await Promise.allSettled(this.asked.map(({ running }) => running.completion));
    for (let i = 0; i < 8; i++) await turn();
    expect(this.engine.check()).toEqual([]);
    const { pagesFree, pagesCached, running, waiting } = this.engine.stats();
    expect([running, waiting, pagesFree + pagesCached]).toEqual([0, 0, this.pages]);
    expect(this.asked.every(({ outcome }) => outcome !== "waiting")).toBe(true);
  }

  private options() {
    const random = this.random;
    const arrive = async () => {
      for (let turns = random.whole(0, 2); turns > 0; turns--) await turn();
      if (this.late && random.chance(0.3)) this.now += 100;
    };
    return { pages: this.pages, context: CONTEXT, prefillChunk: 32, maxBatch: 3, arrive };
  }

  private arrive(): void {
    const { random } = this;
    const fresh = this.prompts.length === 0 || random.chance(0.4);
    const begin = fresh ? promptOf(random, random.whole(1, 70)) : random.pick(this.prompts);
    const prompt = [...begin, ...promptOf(random, random.whole(0, 8))].slice(0, CONTEXT - 2);
    const options = {
      maxTokens: random.whole(1, 60),
      ignoreEos: random.chance(0.5),
      ...(random.chance(0.3) ? { temperature: 1, seed: random.whole(0, 2 ** 40) } : {}),
      ...(random.chance(0.3) ? { presencePenalty: 0.5 } : {}),
      ...(random.chance(0.2) ? { logitBias: { [random.whole(0, 60)]: 1.5 } } : {}),
      ...(random.chance(0.2) ? { stopTokenIds: [random.whole(0, 63)] } : {}),
      ...(random.chance(0.2) ? { stop: textOf([random.whole(0, 63)]) } : {}),
    };
    const asked = request(prompt, options);
    const running = this.engine.submit(asked);
    const one: Asked = { request: asked, running, outcome: "waiting" };
    this.asked.push(one);
    void this.watch(one);
  }

  /** What comes of a request is what the model says, as far as it got. */
  private async watch(one: Asked): Promise<void> {
    const { prompt, params } = one.request;
    try {
      const { tokenIds, finishReason, text } = await one.running.completion;
      let expected = expectedTokens(prompt, params, CONTEXT);
      const [stop] = params.stop;
      const stopped = stop === undefined ? -1 : textOf(expected).indexOf(stop);
      if (stopped >= 0) expected = expected.slice(0, stopped + 1);
      const cut = finishReason === "cancelled" ? tokenIds.length : expected.length;
      expect(tokenIds).toEqual(expected.slice(0, cut));
      const last = tokenIds.at(-1) ?? -1;
      const ends = [...params.stopTokenIds, ...(params.ignoreEos ? [] : EOS)].includes(last);
      const silent = finishReason === "stop" && (ends || stopped >= 0);
      expect(text).toBe(textOf(silent ? tokenIds.slice(0, -1) : tokenIds));
      one.outcome = "done";
      this.prompts.push([...prompt, ...tokenIds]);
    } catch (error) {
      if (!(error instanceof EdgewiseError) || error.code !== "device.kernel") throw error;
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

test.each(Array.from({ length: 20 }, (_, seed) => ({ seed, late: seed >= 12 })))(
  "in the order of seed $seed, late: $late",
  async ({ seed, late }) => {
    const world = new World(seed, late);
    for (let i = 0; i < 250; i++) await world.step();
    await world.finish();
    expect(world.asked.length).toBeGreaterThan(20);
  },
);
