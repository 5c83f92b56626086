/** What a page and its worker say to each other; everything is plain data. */

import type { Delta } from "../calls/deltas.ts";
import type { Machine } from "../client/machine.ts";
import type {
  AnswerOptions,
  Completion,
  ContextPolicy,
  EngineInfo,
  EngineStats,
  EngineStatus,
  GenerateOptions,
  LoadProgress,
  Message,
  SpecialTokens,
  TokenLogprob,
  Warning,
} from "../client/types.ts";
import type { MetricsSnapshot } from "../engine/metrics/metrics.ts";
import type { ChromeTrace } from "../engine/metrics/trace.ts";
import type { ErrorJson } from "../errors.ts";

/** What of `LoadOptions` the worker needs. */
export interface LoadRequest {
  readonly url: string;
  readonly program?: string;
  readonly context?: number;
  readonly maxBurst?: number;
  readonly draft?: "lookup";
  readonly trace?: boolean;
  readonly keepPages?: number | false;
  readonly prefixPacks?: boolean | "always";
  readonly spillAfterMs?: number | null;
  readonly machine: Machine;
}

/** `ChatOptions` that make the prompt. */
export interface ChatPrompt {
  readonly kind: "chat";
  readonly messages: readonly Message[];
  readonly contextPolicy: ContextPolicy;
  readonly begun: readonly number[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly specialTokens: SpecialTokens;
}

export type Prompt =
  | ChatPrompt
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tokens"; readonly tokens: readonly number[] };

/** What of the answer is asked for; undefined is what was left out. */
export type Wanted = { readonly [K in keyof AnswerOptions]-?: AnswerOptions[K] | undefined };

/** `GenerateOptions` that say how tokens are chosen. */
export type Sampling = Omit<GenerateOptions, "signal" | keyof AnswerOptions>;

export type ToWorker =
  | { readonly type: "load"; readonly id: number; readonly request: LoadRequest }
  | {
      readonly type: "generate";
      readonly id: number;
      readonly prompt: Prompt;
      readonly wanted: Wanted;
      readonly sampling: Sampling;
      /** Ids of further choices of the same prompt, each of which has an answer of its own. */
      readonly others: readonly number[];
    }
  | { readonly type: "stats"; readonly id: number }
  | { readonly type: "metrics"; readonly id: number }
  | { readonly type: "trace"; readonly id: number }
  | { readonly type: "forget"; readonly id: number }
  | { readonly type: "close"; readonly id: number }
  /** Whether the page is seen. */
  | { readonly type: "visible"; readonly visible: boolean }
  /** Ends the load or generation with this id. */
  | { readonly type: "stop"; readonly id: number };

export type FromWorker =
  | { readonly type: "progress"; readonly progress: LoadProgress }
  | { readonly type: "warning"; readonly warning: Warning }
  | { readonly type: "status"; readonly status: EngineStatus }
  /** What is loaded now is not what was loaded first. */
  | { readonly type: "info"; readonly info: EngineInfo }
  /** What comes, and the tokens since what came before. */
  | {
      readonly type: "deltas";
      readonly id: number;
      readonly deltas: readonly Delta[];
      readonly tokens: readonly number[];
      readonly logprobs: readonly TokenLogprob[];
    }
  | { readonly type: "done"; readonly id: number; readonly value: Answer }
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorJson };

/** What a request comes to, by the type of the request. */
export type Answer = EngineInfo | Completion | EngineStats | MetricsSnapshot | ChromeTrace | null;
