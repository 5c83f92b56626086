/** What one generation gave: text, why it ended, and what it took. */

import type { Timings, Usage } from "../client/types.ts";

/** Milliseconds, measured by the engine's clock. */
export interface Measured {
  /** From the request to its first token, waiting included. */
  readonly ttftMs: number;
  /** What the device took for the prompt and its first token. */
  readonly prefillMs: number;
  /** What the device took for the tokens after it. */
  readonly decodeMs: number;
}

/** Tokens in and out; an end token counts as one that came out. */
export function usageOf(
  promptTokens: number,
  cachedTokens: number,
  completionTokens: number,
): Usage {
  const totalTokens = promptTokens + completionTokens;
  return { promptTokens, cachedTokens, completionTokens, totalTokens };
}

/** Rates are of the tokens really computed: those of the prompt that were not cached. */
export function timingsOf({ ttftMs, prefillMs, decodeMs }: Measured, usage: Usage): Timings {
  const decodeTokens = Math.max(usage.completionTokens - 1, 0);
  return {
    ttftMs,
    prefillMs,
    decodeMs,
    prefillTokensPerSecond: perSecond(usage.promptTokens - usage.cachedTokens, prefillMs),
    decodeTokensPerSecond: perSecond(decodeTokens, decodeMs),
    decodeTokens,
  };
}

function perSecond(tokens: number, ms: number): number {
  return ms > 0 ? (1000 * tokens) / ms : 0;
}
