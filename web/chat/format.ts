/** Numbers as people read them. */

import type { AnswerStats } from "./conversations.ts";

const UNITS = ["bytes", "KB", "MB", "GB", "TB"] as const;

/** Bytes in the unit that leaves one to three digits before the point. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  // What would be rounded to 1000 is one of the next unit.
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Tokens per second. */
export function rate(tokensPerSecond: number): string {
  return `${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens/s`;
}

/** Milliseconds as they are, or as seconds or minutes where there are many. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 99_500) return `${(ms / 1000).toFixed(0)} s`;
  return `${(ms / 60_000).toFixed(0)} min`;
}

/** The speed of something that grows, over its last few seconds. */
export class Speed {
  private readonly window: number;
  private readonly seen: { readonly at: number; readonly value: number }[] = [];

  /** @param window milliseconds looked back. */
  constructor(window = 3000) {
    this.window = window;
  }

  /** Note a value; how much it grows a second, 0 until that can be told. */
  add(value: number, at: number): number {
    this.seen.push({ at, value });
    while (this.seen.length > 2 && at - (this.seen[0]?.at ?? at) > this.window) this.seen.shift();
    const first = this.seen[0];
    if (!first || at <= first.at) return 0;
    return ((value - first.value) / (at - first.at)) * 1000;
  }
}

/** Whole numbers with their thousands apart. */
export function count(number: number): string {
  return number.toLocaleString("en");
}

/** What an answer took, in a line. */
export function answerDetails(stats: AnswerStats): string {
  const { promptTokens, cachedTokens, tokensPerSecond, ttftMs, finish, contextFull } = stats;
  const parts = [
    ...(tokensPerSecond > 0 ? [rate(tokensPerSecond)] : []),
    `first token ${duration(ttftMs)}`,
    cachedTokens > 0
      ? `${cachedTokens} of ${promptTokens} prompt tokens cached`
      : `${promptTokens} prompt tokens`,
    ...(contextFull ? ["ended where the context does"] : ENDINGS[finish]),
    ...(stats.by === "host" ? ["by the host"] : []),
  ];
  return parts.join(" · ");
}

const ENDINGS: Readonly<Record<AnswerStats["finish"], readonly string[]>> = {
  stop: [],
  length: ["ended at the length limit"],
  cancelled: ["stopped"],
  tool_calls: ["called tools"],
};
