/** OpenAI's chat completions over an engine of this tab, or of a host. */

import type { AnyEngine } from "../../client/remote.ts";
import type { ChatOptions, Message } from "../../client/types.ts";
import { EdgewiseError, shorten } from "../../errors.ts";
import { type ChatChunk, type ChatCompletion, chunks, type Generations, whole } from "./answer.ts";
import { askOf, type ChatRequest } from "./request.ts";

/** What besides the request: as OpenAI's client has it. */
export interface RequestOptions {
  readonly signal?: AbortSignal;
}

export interface OpenAI {
  readonly chat: {
    readonly completions: {
      /**
       * Answer a conversation, whole or in chunks.
       *
       * @throws EdgewiseError `unsupported.parameter`, `unsupported.content`, `input.*`, and what the engine throws.
       */
      create(
        request: ChatRequest & { readonly stream: true },
        options?: RequestOptions,
      ): Promise<AsyncIterable<ChatChunk>>;
      create(
        request: ChatRequest & { readonly stream?: false | null },
        options?: RequestOptions,
      ): Promise<ChatCompletion>;
      create(
        request: ChatRequest,
        options?: RequestOptions,
      ): Promise<ChatCompletion | AsyncIterable<ChatChunk>>;
    };
  };
}

/**
 * An engine in OpenAI's words.
 *
 *     const client = openai(await Engine.load("/bundles/demo-q4/"));
 *     const answer = await client.chat.completions.create({ messages });
 */
export function openai(engine: AnyEngine): OpenAI {
  async function create(request: ChatRequest, { signal }: RequestOptions = {}) {
    const { messages, options } = askOf(request);
    const generations = begin(
      engine,
      messages,
      { ...options, ...(signal ? { signal } : {}) },
      request.n ?? 1,
    );
    const { name } = engine.info;
    if (!request.stream) return whole(generations, name);
    return chunks(generations, name, request.stream_options?.include_usage === true);
  }
  return { chat: { completions: { create: create as OpenAI["chat"]["completions"]["create"] } } };
}

function begin(
  engine: AnyEngine,
  messages: readonly Message[],
  options: ChatOptions,
  n: number,
): Generations {
  if (n === 1) return [engine.chat(messages, options)];
  if (!engine.choices) {
    throw new EdgewiseError(
      "unsupported.parameter",
      `n is ${shorten(n)}, and this engine gives one answer to a prompt.`,
      "Ask so many times.",
    );
  }
  const [first, ...others] = engine.choices(messages, { ...options, n });
  if (!first) throw new TypeError("no choices");
  return [first, ...others];
}
