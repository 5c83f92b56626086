/** What is answered in OpenAI's words: whole, and in chunks. As in Python's `server/openai`. */

import type {
  AnswerDelta,
  Completion,
  FinishReason,
  Generation,
  LikelyToken,
  TokenLogprob,
} from "../../client/types.ts";
import { together } from "./together.ts";

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  /** Where thoughts were counted. */
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
  /** As WebLLM has it: tokens per second, and seconds; of several choices those of the quickest. */
  readonly extra: {
    readonly prefill_tokens_per_s: number;
    readonly decode_tokens_per_s: number;
    readonly time_to_first_token_s: number;
  };
}

export interface ChatToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatCompletionMessage {
  readonly role: "assistant";
  readonly content: string | null;
  readonly refusal: null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ChatToolCall[];
}

export type ChatFinishReason = "stop" | "length" | "tool_calls";

/** A token and how likely it was; its text is of its bytes, those that are no UTF-8 replaced. */
export interface ChatTokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

export interface ChatLogprobs {
  readonly content: readonly (ChatTokenLogprob & {
    readonly top_logprobs: readonly ChatTokenLogprob[];
  })[];
  readonly refusal: null;
}

export interface ChatChoice {
  readonly index: number;
  readonly message: ChatCompletionMessage;
  /** Null where nobody asked for it. */
  readonly logprobs: ChatLogprobs | null;
  readonly finish_reason: ChatFinishReason;
}

export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [ChatChoice, ...ChatChoice[]];
  readonly usage: ChatUsage;
}

/** A piece of what changed since the chunk before. */
export interface ChatChunkDelta {
  readonly role?: "assistant";
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly index: number;
    readonly id?: string;
    readonly type?: "function";
    readonly function: { readonly name?: string; readonly arguments?: string };
  }[];
}

export interface ChatChunk {
  readonly id: string;
  readonly object: "chat.completion.chunk";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta: ChatChunkDelta;
    readonly logprobs: ChatLogprobs | null;
    readonly finish_reason: ChatFinishReason | null;
  }[];
  readonly usage?: ChatUsage | null;
}

/** Who was stopped has ended, in these words. */
const FINISHED: Readonly<Record<FinishReason, ChatFinishReason>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool_calls",
  cancelled: "stop",
};

/** In place of what JSON has no number for. */
const LEAST_LOGPROB = -9999;

/** One generation or more. */
export type Generations = readonly [Generation, ...Generation[]];

/** The whole answer, once it is there. */
export async function whole(generations: Generations, model: string): Promise<ChatCompletion> {
  const head = headOf(model);
  const [first, ...others] = generations;
  const completions = await Promise.all([
    first.completion,
    ...others.map(({ completion }) => completion),
  ]);
  const [one, ...more] = completions.map(choiceOf);
  if (!one) throw new TypeError("no choices");
  return {
    ...head,
    object: "chat.completion",
    choices: [one, ...more],
    usage: usageOf(completions),
  };
}

/**
 * The answer in chunks. A call is told as it comes; what turns out to be none is told as text then, and its chunks stay
 * told. Leaving the loop early stops the answer.
 *
 * @param withUsage a last chunk has what all of it took.
 */
export async function* chunks(
  generations: Generations,
  model: string,
  withUsage: boolean,
): AsyncGenerator<ChatChunk, void, undefined> {
  const head = headOf(model);
  const chunk = (
    index: number,
    delta: ChatChunkDelta,
    logprobs: ChatLogprobs | null = null,
    reason: ChatFinishReason | null = null,
  ): ChatChunk => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index, delta, logprobs, finish_reason: reason }],
    ...(withUsage ? { usage: null } : {}),
  });
  const told = generations.map(() => 0);
  /** How likely the tokens were that have come since. */
  const likely = (index: number, all: readonly TokenLogprob[]): ChatLogprobs | null => {
    const fresh = all.slice(told[index]);
    told[index] = all.length;
    return fresh.length === 0 ? null : logprobsOf(fresh);
  };
  for (const index of generations.keys()) yield chunk(index, { role: "assistant", content: "" });
  const completions: Completion[] = [];
  for await (const event of together(generations)) {
    const { index } = event;
    if ("delta" in event) {
      const delta = deltaOf(event.delta);
      if (delta) yield chunk(index, delta, likely(index, generations[index]?.logprobs ?? []));
      continue;
    }
    const { completion } = event;
    completions.push(completion);
    const rest = likely(index, completion.logprobs ?? []);
    if (rest) yield chunk(index, {}, rest);
    yield chunk(index, {}, null, FINISHED[completion.finishReason]);
  }
  if (withUsage) {
    yield { ...head, object: "chat.completion.chunk", choices: [], usage: usageOf(completions) };
  }
}

function choiceOf(completion: Completion, index: number): ChatChoice {
  return {
    index,
    message: messageOf(completion),
    logprobs: completion.logprobs ? logprobsOf(completion.logprobs) : null,
    finish_reason: FINISHED[completion.finishReason],
  };
}

function logprobsOf(tokens: readonly TokenLogprob[]): ChatLogprobs {
  const content = tokens.map(({ top, ...token }) => ({
    ...likelyOf(token),
    top_logprobs: top.map(likelyOf),
  }));
  return { content, refusal: null };
}

function likelyOf({ text, bytes, logprob }: LikelyToken): ChatTokenLogprob {
  return { token: text, logprob: Math.max(logprob, LEAST_LOGPROB), bytes };
}

function headOf(model: string) {
  const id = `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`;
  return { id, created: Math.floor(Date.now() / 1000), model };
}

function messageOf({ text, reasoning, toolCalls }: Completion): ChatCompletionMessage {
  const called = toolCalls.map(
    ({ id, name, text: written }): ChatToolCall => ({
      id,
      type: "function",
      function: { name, arguments: written },
    }),
  );
  return {
    role: "assistant",
    content: called.length > 0 ? text || null : text,
    refusal: null,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(called.length === 0 ? {} : { tool_calls: called }),
  };
}

function deltaOf(delta: AnswerDelta): ChatChunkDelta | null {
  switch (delta.kind) {
    case "content":
    case "no call":
      return delta.text === "" ? null : { content: delta.text };
    case "reasoning":
      return delta.text === "" ? null : { reasoning_content: delta.text };
    case "call begins": {
      const { index, id, name } = delta;
      return { tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] };
    }
    case "arguments":
      return { tool_calls: [{ index: delta.index, function: { arguments: delta.text } }] };
    case "call ends":
      return null;
  }
}

/** What all choices took: their prompt counts once. */
function usageOf(completions: readonly Completion[]): ChatUsage {
  const usages = completions.map(({ usage }) => usage);
  const prompt = Math.max(0, ...usages.map(({ promptTokens }) => promptTokens));
  const completion = usages.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
  const timings = completions.map((one) => one.timings);
  const most = (rates: readonly number[]) => Math.max(0, ...rates);
  const thought = completions.reduce((sum, one) => sum + (one.thoughtTokens ?? 0), 0);
  const counted = completions.some(({ thoughtTokens }) => thoughtTokens !== undefined);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: Math.min(...usages.map((one) => one.cachedTokens)) },
    ...(counted ? { completion_tokens_details: { reasoning_tokens: thought } } : {}),
    extra: {
      prefill_tokens_per_s: most(timings.map((one) => one.prefillTokensPerSecond)),
      decode_tokens_per_s: most(timings.map((one) => one.decodeTokensPerSecond)),
      time_to_first_token_s: Math.min(...timings.map((one) => one.ttftMs)) / 1000,
    },
  };
}
