export type { HistogramSnapshot } from "../engine/metrics/histogram.ts";
export type { MetricsSnapshot, MetricValue } from "../engine/metrics/metrics.ts";
export type { ChromeTrace, TraceEvent } from "../engine/metrics/trace.ts";
export { EdgewiseError } from "../errors.ts";
export { Engine } from "./engine.ts";
export { answerMessage, toolResult } from "./messages.ts";
export type * from "./types.ts";
