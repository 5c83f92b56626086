/**
 * What an engine of a tab counts, under the names that Python's has, whose `engine/metrics.py` says of each what it
 * counts and in which unit.
 */

import { steps125 } from "./histogram.ts";

/** What a name stands for: a number, numbers by the values of a label, or a histogram with its bounds. */
export interface Family {
  readonly kind: "counter" | "gauge" | "histogram";
  readonly label?: string;
  readonly values?: readonly string[];
  readonly bounds?: readonly number[];
}

const SECONDS = steps125(-4, 3);
const TOKENS = Array.from({ length: 15 }, (_, i) => 2 ** i);
const ROWS = Array.from({ length: 9 }, (_, i) => 2 ** i);

const counter = { kind: "counter" } as const;
const gauge = { kind: "gauge" } as const;
const labelled = (label: string, ...values: readonly string[]) =>
  ({ kind: "counter", label, values }) as const;
const histogram = (bounds: readonly number[]) => ({ kind: "histogram", bounds }) as const;

export const FAMILIES = {
  time_to_first_token_seconds: histogram(SECONDS),
  inter_token_latency_seconds: histogram(SECONDS),
  e2e_request_latency_seconds: histogram(SECONDS),
  request_queue_time_seconds: histogram(SECONDS),
  request_prefill_time_seconds: histogram(SECONDS),
  request_decode_time_seconds: histogram(SECONDS),
  step_seconds: histogram(SECONDS),
  iteration_tokens_total: histogram(TOKENS),
  step_batch_size: histogram(ROWS),
  request_success_total: labelled(
    "finished_reason",
    "stop",
    "length",
    "cancelled",
    "timeout",
    "error",
  ),
  prompt_tokens_total: counter,
  generation_tokens_total: counter,
  steps_total: counter,
  prefill_tokens_total: counter,
  decode_tokens_total: counter,
  prefix_cache_queries_total: counter,
  prefix_cache_hits_total: labelled("tier", "device", "memory", "disk", "bundle"),
  num_preemptions_total: counter,
  kv_pages_spilled_total: counter,
  kv_pages_restored_total: counter,
  spec_decode_num_draft_tokens_total: counter,
  spec_decode_num_accepted_tokens_total: counter,
  num_requests_running: gauge,
  num_requests_waiting: gauge,
  kv_pages: gauge,
  kv_pages_used: gauge,
  kv_cache_usage_perc: gauge,
  kv_tokens: gauge,
  prefix_cache_bytes: gauge,
} as const satisfies Readonly<Record<string, Family>>;

export type FamilyName = keyof typeof FAMILIES;
