/** What an engine has done and is doing, counted. */

import { FAMILIES, type Family, type FamilyName } from "./families.ts";
import { Histogram, type HistogramSnapshot } from "./histogram.ts";
import { type EndReason, type Listener, type Now, RequestRecord, type Step } from "./record.ts";
import type { Trace } from "./trace.ts";

/** A number, numbers by the values of a label, or a histogram, as `FAMILIES` says of its name. */
export type MetricValue = number | Readonly<Record<string, number>> | HistogramSnapshot;
export type MetricsSnapshot = Readonly<Record<FamilyName, MetricValue>>;

/** What is counted elsewhere: pages, tokens found in them, guesses. */
export interface Elsewhere extends Now {
  readonly queriedTokens: number;
  readonly hitTokens: Readonly<Record<"device" | "disk" | "bundle", number>>;
  readonly pagesSaved: number;
  readonly pagesRestored: number;
  readonly draftTokens: number;
  readonly draftAcceptedTokens: number;
  readonly cachedBytes: number;
}

const families = Object.entries(FAMILIES) as [FamilyName, Family][];

export class Metrics implements Listener {
  private readonly trace: Trace | null;
  private readonly seconds: () => number;
  private requests = 0;
  private readonly counts = new Map<FamilyName, number>();
  private readonly reasons: Record<string, number>;
  private readonly histograms = new Map<FamilyName, Histogram>(
    families.flatMap(([name, { bounds }]) => (bounds ? [[name, new Histogram(bounds)]] : [])),
  );

  /**
   * @param seconds the time.
   * @param trace where steps and requests are recorded, too.
   */
  constructor(seconds: () => number, trace: Trace | null = null) {
    this.seconds = seconds;
    this.trace = trace;
    const reasons = FAMILIES.request_success_total.values;
    this.reasons = Object.fromEntries(reasons.map((reason) => [reason, 0]));
  }

  /** A request has arrived. */
  queued(promptTokens: number): RequestRecord {
    const record = new RequestRecord(this.requests++, promptTokens, this.seconds, this);
    this.moved(record);
    return record;
  }

  moved({ id, phase, eventS }: RequestRecord): void {
    this.trace?.enter(id, phase, eventS);
  }

  started(record: RequestRecord, first: boolean): void {
    if (!first) return;
    this.count("prompt_tokens_total", record.promptTokens);
    this.observe("request_queue_time_seconds", record.eventS - record.queuedS);
  }

  took(record: RequestRecord, count: number, waitS: number | null): void {
    this.count("generation_tokens_total", count);
    if (waitS !== null) {
      this.observe("inter_token_latency_seconds", waitS / count, count);
      return;
    }
    this.observe("time_to_first_token_seconds", record.eventS - record.queuedS);
    this.observe("request_prefill_time_seconds", record.eventS - (record.startedS ?? 0));
  }

  preempted(): void {
    this.count("num_preemptions_total", 1);
  }

  ended(record: RequestRecord, reason: EndReason): void {
    const { id, queuedS, firstS, lastS, eventS } = record;
    const { promptTokens, cachedTokens, completionTokens, preemptions } = record;
    this.trace?.enter(id, null, eventS, {
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      completion_tokens: completionTokens,
      preemptions,
    });
    this.reasons[reason] = (this.reasons[reason] ?? 0) + 1;
    this.observe("e2e_request_latency_seconds", eventS - queuedS);
    if (firstS !== null) this.observe("request_decode_time_seconds", lastS - firstS);
  }

  /** The device has done a piece of work. */
  step(step: Step, now: () => Now): void {
    const { prefillTokens, decodeTokens, draftTokens } = step;
    this.count("steps_total", 1);
    this.count("prefill_tokens_total", prefillTokens);
    this.count("decode_tokens_total", decodeTokens);
    this.observe("step_seconds", step.seconds);
    this.observe("iteration_tokens_total", prefillTokens + decodeTokens + draftTokens);
    this.observe("step_batch_size", step.batch);
    this.trace?.step(step, now());
  }

  /** All numbers at one moment, ready for JSON, by the names of `FAMILIES`. */
  snapshot(elsewhere: Elsewhere): MetricsSnapshot {
    const { pages, pagesUsed } = elsewhere;
    const known: Partial<Record<FamilyName, MetricValue>> = {
      ...Object.fromEntries(this.counts),
      ...Object.fromEntries([...this.histograms].map(([name, one]) => [name, one.snapshot()])),
      request_success_total: { ...this.reasons },
      prefix_cache_queries_total: elsewhere.queriedTokens,
      prefix_cache_hits_total: { ...elsewhere.hitTokens, memory: 0 },
      kv_pages_spilled_total: elsewhere.pagesSaved,
      kv_pages_restored_total: elsewhere.pagesRestored,
      spec_decode_num_draft_tokens_total: elsewhere.draftTokens,
      spec_decode_num_accepted_tokens_total: elsewhere.draftAcceptedTokens,
      num_requests_running: elsewhere.running,
      num_requests_waiting: elsewhere.waiting,
      kv_pages: pages,
      kv_pages_used: pagesUsed,
      kv_cache_usage_perc: pages > 0 ? pagesUsed / pages : 0,
      kv_tokens: elsewhere.kvTokens,
      prefix_cache_bytes: elsewhere.cachedBytes,
    };
    const all = families.map(([name]) => [name, known[name] ?? 0]);
    return Object.fromEntries(all);
  }

  private count(name: FamilyName, more: number): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + more);
  }

  private observe(name: FamilyName, value: number, times = 1): void {
    this.histograms.get(name)?.observe(value, times);
  }
}
