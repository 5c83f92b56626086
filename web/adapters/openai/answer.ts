/** What is answered in OpenAI's words: whole, and in chunks. As in Python's `server/openai`. */

import type { AnswerDelta, Completion, FinishReason, Generation } from "../../client/types.ts";

export interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  /** As WebLLM has it: tokens per second, and seconds. */
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

export interface ChatCompletion {
  readonly id: string;
  readonly object: "chat.completion";
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [
    {
      readonly index: 0;
      readonly message: ChatCompletionMessage;
      readonly logprobs: null;
      readonly finish_reason: ChatFinishReason;
    },
  ];
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
    readonly index: 0;
    readonly delta: ChatChunkDelta;
    readonly logprobs: null;
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

/** The whole answer, once it is there. */
export async function whole(generation: Generation, model: string): Promise<ChatCompletion> {
  const head = headOf(model);
  const completion = await generation.completion;
  return {
    ...head,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: messageOf(completion),
        logprobs: null,
        finish_reason: FINISHED[completion.finishReason],
      },
    ],
    usage: usageOf(completion),
  };
}

/**
 * The answer in chunks. A call is told as it comes; what turns out to be none is told as text then, and its chunks stay
 * told. Leaving the loop early stops the answer.
 *
 * @param withUsage a last chunk has what all of it took.
 */
export async function* chunks(
  generation: Generation,
  model: string,
  withUsage: boolean,
): AsyncGenerator<ChatChunk, void, undefined> {
  const head = headOf(model);
  const chunk = (delta: ChatChunkDelta, reason: ChatFinishReason | null = null): ChatChunk => ({
    ...head,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
    ...(withUsage ? { usage: null } : {}),
  });
  yield chunk({ role: "assistant", content: "" });
  for await (const delta of generation.deltas) {
    const told = deltaOf(delta);
    if (told) yield chunk(told);
  }
  const completion = await generation.completion;
  yield chunk({}, FINISHED[completion.finishReason]);
  if (withUsage) {
    yield { ...head, object: "chat.completion.chunk", choices: [], usage: usageOf(completion) };
  }
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

function usageOf({ usage, timings }: Completion): ChatUsage {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    extra: {
      prefill_tokens_per_s: timings.prefillTokensPerSecond,
      decode_tokens_per_s: timings.decodeTokensPerSecond,
      time_to_first_token_s: timings.ttftMs / 1000,
    },
  };
}
