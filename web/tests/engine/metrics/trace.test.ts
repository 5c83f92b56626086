import { expect, test } from "vitest";
import { Trace } from "../../../engine/metrics/trace.ts";

const now = { running: 1, waiting: 2, pages: 9, pagesUsed: 4, kvTokens: 50 };
const step = (startedS: number) => ({
  startedS,
  seconds: 0.5,
  budget: 64,
  prefillTokens: 0,
  decodeTokens: 3,
  draftTokens: 5,
  burst: 1,
  batch: 3,
});

test("a step is an event with counters after it", () => {
  const trace = new Trace();
  trace.step(step(2), now);
  const [, , ...events] = trace.toJson().traceEvents;
  expect(events.map(({ ph, name, ts, dur }) => [ph, name, ts, dur])).toEqual([
    ["X", "verify", 0, 500_000],
    ["C", "tokens", 500_000, undefined],
    ["C", "sequences", 500_000, undefined],
    ["C", "kv pages", 500_000, undefined],
  ]);
  expect(events[0]?.args).toMatchObject({ tokens: 8, draft_tokens: 5, pages_used: 4 });
});

test("a request that goes on has no end yet", () => {
  const trace = new Trace();
  trace.enter(7, "queued", 1);
  trace.enter(7, "prefill", 2);
  const [, , ...events] = trace.toJson().traceEvents;
  expect(events.map(({ ph, name }) => `${ph} ${name}`)).toEqual([
    "b request 7",
    "b queued",
    "e queued",
    "b prefill",
  ]);
});

test("the oldest go first, and are counted", () => {
  const trace = new Trace(40);
  for (let i = 0; i < 200; i++) trace.step(step(i), now);
  const { traceEvents, otherData } = trace.toJson();
  const steps = traceEvents.filter(({ ph }) => ph === "X");
  expect(steps.length).toBeGreaterThanOrEqual(40);
  expect(steps.length).toBeLessThan(50);
  expect(otherData.dropped).toBe(200 - steps.length);
});

test("nothing is a trace, too", () => {
  expect(new Trace().toJson().traceEvents.map(({ ph }) => ph)).toEqual(["M", "M"]);
});
