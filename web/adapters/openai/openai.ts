/** OpenAI's chat completions over an engine of this tab, or of a host. */

import type { AnyEngine } from "../../client/remote.ts";
import { type ChatChunk, type ChatCompletion, chunks, whole } from "./answer.ts";
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
    const generation = engine.chat(messages, { ...options, ...(signal ? { signal } : {}) });
    const { name } = engine.info;
    if (!request.stream) return whole(generation, name);
    return chunks(generation, name, request.stream_options?.include_usage === true);
  }
  return { chat: { completions: { create: create as OpenAI["chat"]["completions"]["create"] } } };
}
