import { describe, expect, test } from "vitest";
import { lookupDrafts } from "../../../engine/drafts/drafting.ts";
import type { EngineOptions } from "../../../engine/engine.ts";
import type { HistogramSnapshot } from "../../../engine/metrics/histogram.ts";
import { Trace } from "../../../engine/metrics/trace.ts";
import { MAX_BIAS } from "../../../engine/sampling.ts";
import { VOCAB } from "../expected.ts";
import { Random } from "../random.ts";
import { makeEngine, promptOf, request, tokensOf, turn } from "../support.ts";

const PAGES = { pages: 64, context: 256, maxBatch: 4 };

/** An engine whose every look at the time is a millisecond later. */
function counted(options: Partial<EngineOptions> = {}) {
  let now = 0;
  return makeEngine(PAGES, { clock: () => now++, ...options });
}

describe("metrics", () => {
  test("count requests, tokens and what they waited for", async () => {
    const { engine } = counted();
    const asked = [4, 40, 9].map((length, i) =>
      request(promptOf(new Random(i), length), { maxTokens: 12, ignoreEos: true }),
    );
    await Promise.all(asked.map((one) => tokensOf(engine.submit(one))));
    const found = engine.metrics();
    expect(found).toMatchObject({
      prompt_tokens_total: 53,
      prefill_tokens_total: 53,
      generation_tokens_total: 36,
      num_requests_running: 0,
      num_requests_waiting: 0,
      num_preemptions_total: 0,
      kv_pages: PAGES.pages,
      kv_pages_used: 0,
      kv_cache_usage_perc: 0,
      kv_tokens: 0,
      request_success_total: { stop: 0, length: 3, cancelled: 0, timeout: 0, error: 0 },
    });
    const counts = [
      "time_to_first_token_seconds",
      "e2e_request_latency_seconds",
      "request_queue_time_seconds",
      "request_prefill_time_seconds",
      "request_decode_time_seconds",
    ] as const;
    for (const name of counts) expect(found[name]).toMatchObject({ count: 3 });
    expect(found.inter_token_latency_seconds).toMatchObject({ count: 33 });
    const ttft = found.time_to_first_token_seconds as HistogramSnapshot;
    const queue = found.request_queue_time_seconds as HistogramSnapshot;
    const prefill = found.request_prefill_time_seconds as HistogramSnapshot;
    expect(queue.sum + prefill.sum).toBeCloseTo(ttft.sum, 9);
    // A burst may draw for who has ended meanwhile.
    expect(found.decode_tokens_total).toBeGreaterThanOrEqual(33);
    expect(found.iteration_tokens_total).toMatchObject({
      sum: 53 + Number(found.decode_tokens_total),
    });
  });

  test("say where tokens of prompts were found", async () => {
    const { engine } = counted();
    const prompt = promptOf(new Random(1), 70);
    for (let i = 0; i < 2; i++) await tokensOf(engine.submit(request(prompt, { maxTokens: 2 })));
    const { prefix_cache_hits_total, prefix_cache_queries_total, prefix_cache_bytes } =
      engine.metrics();
    expect(prefix_cache_hits_total).toEqual({ device: 64, memory: 0, disk: 0, bundle: 0 });
    expect(prefix_cache_queries_total).toBeGreaterThanOrEqual(140);
    expect(prefix_cache_bytes).toBeGreaterThan(0);
  });

  test("tell how requests ended, and of those that run", async () => {
    const { engine } = counted();
    const running = engine.submit(request([5], { maxTokens: 200, ignoreEos: true }));
    await running.pieces[Symbol.asyncIterator]().next();
    expect(engine.metrics()).toMatchObject({ num_requests_running: 1 });
    expect(engine.metrics().kv_pages_used).toBeGreaterThan(0);
    running.cancel();
    await running.completion;
    const failing = engine.submit(request([5], { maxTokens: 200 }));
    engine.close();
    await expect(failing.completion).rejects.toThrow();
    expect(engine.metrics().request_success_total).toMatchObject({ cancelled: 1, error: 1 });
  });

  test("count guesses", async () => {
    const { engine } = counted({ drafter: lookupDrafts });
    const others = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => id !== 9);
    const logitBias = Object.fromEntries(others.map((id) => [id, -MAX_BIAS]));
    await tokensOf(engine.submit(request([5], { maxTokens: 30, logitBias })));
    const { draftTokens, draftAcceptedTokens } = engine.stats();
    expect(engine.metrics()).toMatchObject({
      spec_decode_num_draft_tokens_total: draftTokens,
      spec_decode_num_accepted_tokens_total: draftAcceptedTokens,
    });
    expect(draftTokens).toBeGreaterThan(0);
  });
});

describe("a trace", () => {
  test("has every step and every phase of a request, nested and in order", async () => {
    const { engine, program } = counted({ trace: new Trace() });
    const asked = [3, 90].map((length, i) =>
      request(promptOf(new Random(i), length), { maxTokens: 9, ignoreEos: true }),
    );
    await Promise.all(asked.map((one) => tokensOf(engine.submit(one))));
    await turn();
    const { traceEvents, displayTimeUnit, otherData } = JSON.parse(JSON.stringify(engine.traced()));
    expect([displayTimeUnit, otherData]).toEqual(["ms", { dropped: 0 }]);
    const times = traceEvents.flatMap(({ ts }: { ts?: number }) => (ts === undefined ? [] : [ts]));
    expect(times).toEqual(times.toSorted((a: number, b: number) => a - b));
    expect(times[0]).toBe(0);
    const steps = traceEvents.filter(({ ph }: { ph: string }) => ph === "X");
    expect(new Set(steps.map(({ name }: { name: string }) => name))).toEqual(
      new Set(["prefill", "decode"]),
    );
    expect(steps.length).toBeLessThanOrEqual(program.runs.length);
    for (const [i, { ts, dur }] of steps.entries()) {
      expect(ts + dur).toBeLessThanOrEqual(steps[i + 1]?.ts ?? Number.POSITIVE_INFINITY);
    }
    const track = traceEvents.filter(({ id }: { id?: string }) => id === "1");
    expect(track.map(({ ph, name }: { ph: string; name: string }) => `${ph} ${name}`)).toEqual([
      "b request 1",
      "b queued",
      "e queued",
      "b prefill",
      "e prefill",
      "b decode",
      "e decode",
      "e request 1",
    ]);
    expect(track[0].args).toMatchObject({ prompt_tokens: 90, completion_tokens: 9 });
  });

  test("is refused where none is recorded", () => {
    const { engine } = counted();
    expect(() => engine.traced()).toThrow(expect.objectContaining({ code: "input.trace" }));
  });
});
