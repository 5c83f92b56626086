/** Answers as `edgewise.v1` writes them: docs/protocol.md and docs/tabs.md. */

import { joined } from "../calls/deltas.ts";
import type { AnswerDelta, Completion } from "./types.ts";

/** A delta as JSON. */
export type WireDelta =
  | { readonly type: "content" | "reasoning"; readonly text: string }
  | {
      readonly type: "call_begins";
      readonly index: number;
      readonly id: string;
      readonly name: string;
    }
  | { readonly type: "arguments"; readonly index: number; readonly text: string }
  | { readonly type: "call_ends"; readonly index: number }
  | {
      readonly type: "no_call";
      readonly index: number | null;
      readonly text: string;
      readonly why: string;
    };

const TYPES = {
  content: "content",
  reasoning: "reasoning",
  "call begins": "call_begins",
  arguments: "arguments",
  "call ends": "call_ends",
  "no call": "no_call",
} as const satisfies Record<AnswerDelta["kind"], WireDelta["type"]>;

/** Deltas as JSON, neighbours that are pieces of one text joined. */
export function deltasOf(deltas: readonly AnswerDelta[]): WireDelta[] {
  return joined(deltas).map(({ kind, ...rest }) => ({ type: TYPES[kind], ...rest }) as WireDelta);
}

/** An answer as a tab gives it to its host. */
export function choiceOf(completion: Completion) {
  const { usage, timings } = completion;
  return {
    reason: completion.finishReason,
    stop: null,
    text: completion.text,
    reasoning: completion.reasoning,
    calls: completion.toolCalls.map(({ id, name, text }) => ({ id, name, arguments: text })),
    token_ids: completion.tokenIds,
    usage: {
      prompt_tokens: usage.promptTokens,
      completion_tokens: usage.completionTokens,
      cached_tokens: usage.cachedTokens,
    },
    timings: {
      ttft_s: timings.ttftMs / 1000,
      prefill_s: timings.prefillMs / 1000,
      decode_s: timings.decodeMs / 1000,
      prefill_tokens_per_s: timings.prefillTokensPerSecond,
      decode_tokens_per_s: timings.decodeTokensPerSecond,
    },
    seed: completion.seed,
    context_full: completion.contextFull,
    dropped_turns: completion.droppedTurns,
  };
}
