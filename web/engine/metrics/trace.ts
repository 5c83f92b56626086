/**
 * A record of what the engine did and when, for https://ui.perfetto.dev or chrome://tracing, as Python's
 * `engine/trace.py` writes it: Chrome's Trace Event Format as a JSON object. Steps are complete events (`X`), counters
 * (`C`) follow each; every request is a track of its own, where its phases are nested asynchronous events (`b`, `e`).
 */

import type { Now, Phase, Step } from "./record.ts";

/** Steps, phases and requests that are kept; the oldest go first. */
export const MOST_ENTRIES = 20_000;

const ENGINE = { pid: 1, tid: 1 } as const;

export type TraceEvent = Readonly<Record<string, unknown>> & { readonly ts?: number };

export interface ChromeTrace {
  readonly traceEvents: readonly TraceEvent[];
  readonly displayTimeUnit: "ms";
  /** `dropped`: steps, phases and requests that had to go. */
  readonly otherData: { readonly dropped: number };
}

/** A phase of a request, or with `phase` null the whole of it; `endS` is null while it goes on. */
interface Span {
  readonly request: number;
  readonly phase: Phase | null;
  readonly startS: number;
  readonly endS: number | null;
  readonly args: Readonly<Record<string, unknown>>;
}

interface Stepped {
  readonly step: Step;
  readonly now: Now;
}

export class Trace {
  private readonly most: number;
  private entries: (Span | Stepped)[] = [];
  private dropped = 0;
  private readonly requests = new Map<number, Span>();
  private readonly phases = new Map<number, Span>();

  constructor(most = MOST_ENTRIES) {
    this.most = most;
  }

  step(step: Step, now: Now): void {
    this.add({ step, now });
  }

  /** A request enters a phase, or with null ends, which `ended` shows. */
  enter(
    request: number,
    phase: Phase | null,
    startS: number,
    ended: Readonly<Record<string, unknown>> = {},
  ): void {
    const left = this.phases.get(request);
    if (left) this.add({ ...left, endS: startS });
    this.phases.delete(request);
    const whole = this.requests.get(request) ?? {
      request,
      phase: null,
      startS,
      endS: null,
      args: {},
    };
    if (phase !== null) {
      this.requests.set(request, whole);
      this.phases.set(request, { request, phase, startS, endS: null, args: {} });
    } else if (this.requests.delete(request)) {
      this.add({ ...whole, endS: startS, args: ended });
    }
  }

  /** The format's JSON object; time 0 is the first thing in it. */
  toJson(): ChromeTrace {
    const steps = this.entries.filter((one): one is Stepped => "step" in one);
    const over = this.entries.filter((one): one is Span => !("step" in one));
    const spans = [...over, ...this.requests.values(), ...this.phases.values()];
    const starts = [...steps.map(({ step }) => step.startedS), ...spans.map((one) => one.startS)];
    const zero = starts.reduce((least, one) => Math.min(least, one), starts[0] ?? 0);
    // The format's microseconds, of which whole nanoseconds are kept.
    const us = (s: number) => Math.round((s - zero) * 1e9) / 1e3;
    const events = [...stepEvents(steps, us), ...requestEvents(spans, us)];
    // Stable: where times are equal, the events of a request stay in order.
    events.sort((a, b) => Number(a.ts) - Number(b.ts));
    return {
      traceEvents: [...names(), ...events],
      displayTimeUnit: "ms",
      otherData: { dropped: this.dropped },
    };
  }

  private add(entry: Span | Stepped): void {
    this.entries.push(entry);
    // In large pieces: an array gives up its beginning by being copied.
    if (this.entries.length < 1.25 * this.most) return;
    const gone = this.entries.length - this.most;
    this.entries = this.entries.slice(gone);
    this.dropped += gone;
  }
}

type Us = (s: number) => number;

function names(): TraceEvent[] {
  const given = [
    ["process_name", "edgewise"],
    ["thread_name", "engine"],
  ] as const;
  return given.map(([name, value]) => ({ ph: "M", name, ...ENGINE, args: { name: value } }));
}

function stepEvents(steps: readonly Stepped[], us: Us): TraceEvent[] {
  return steps.flatMap(({ step, now }, i) => {
    const start = us(step.startedS);
    const following = steps[i + 1];
    const next = following ? us(following.step.startedS) : Number.POSITIVE_INFINITY;
    // A sum rounded up must not reach into the next step: viewers drop what overlaps.
    const end = Math.max(start, Math.min(us(step.startedS + step.seconds), next));
    const counters = {
      tokens: {
        prefill: step.prefillTokens,
        decode: step.decodeTokens,
        draft: step.draftTokens,
      },
      sequences: { running: step.batch, waiting: now.waiting },
      "kv pages": { used: now.pagesUsed, total: now.pages },
    };
    const counted = Object.entries(counters).map(([name, args]) => {
      return { ph: "C", name, cat: "step", ...ENGINE, ts: end, args };
    });
    const args = {
      budget: step.budget,
      tokens: step.prefillTokens + step.decodeTokens + step.draftTokens,
      prefill_tokens: step.prefillTokens,
      decode_tokens: step.decodeTokens,
      draft_tokens: step.draftTokens,
      burst: step.burst,
      batch: step.batch,
      pages_used: now.pagesUsed,
      kv_tokens: now.kvTokens,
    };
    const dur = Math.round((end - start) * 1e3) / 1e3;
    const name = nameOf(step);
    return [{ ph: "X", name, cat: "step", ...ENGINE, ts: start, dur, args }, ...counted];
  });
}

function nameOf({ prefillTokens, decodeTokens, draftTokens }: Step): string {
  if (draftTokens > 0) return "verify";
  if (prefillTokens > 0) return decodeTokens > 0 ? "prefill+decode" : "prefill";
  return decodeTokens > 0 ? "decode" : "step";
}

/** The events of each request in order: its begin, those of its phases, its end. */
function requestEvents(spans: readonly Span[], us: Us): TraceEvent[] {
  const phases = new Map<number, Span[]>();
  for (const span of spans) {
    if (span.phase === null) continue;
    const own = phases.get(span.request) ?? [];
    phases.set(span.request, [...own, span]);
  }
  return spans
    .filter((span) => span.phase === null)
    .flatMap((whole) => {
      const own = phases.get(whole.request) ?? [];
      const inner = own.flatMap((phase) => [
        edge(phase, "b", us(phase.startS)),
        ...(phase.endS === null ? [] : [edge(phase, "e", us(phase.endS))]),
      ]);
      const end = whole.endS === null ? [] : [edge(whole, "e", us(whole.endS))];
      return [edge(whole, "b", us(whole.startS), whole.args), ...inner, ...end];
    });
}

function edge(
  span: Span,
  ph: "b" | "e",
  ts: number,
  args: Readonly<Record<string, unknown>> = {},
): TraceEvent {
  const name = span.phase ?? `request ${span.request}`;
  const event = { ph, cat: "request", name, id: String(span.request), ...ENGINE, ts };
  return Object.keys(args).length > 0 ? { ...event, args } : event;
}
