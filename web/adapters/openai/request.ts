/** What is asked in OpenAI's words, and what it is to the engine. As in Python's `server/openai`. */

import type {
  ChatOptions,
  Message,
  ReasoningEffort,
  ResponseFormatOption,
  ToolCall,
  ToolChoiceOption,
  ToolDefinition,
} from "../../client/types.ts";
import { EdgewiseError, shorten } from "../../errors.ts";

/** A part of a content: only text is read. */
export interface ContentPart {
  readonly type: string;
  readonly text?: string;
  readonly refusal?: string;
}

export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  readonly content?: string | readonly ContentPart[] | null;
  readonly refusal?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
  readonly name?: string;
}

/** JSON that follows a schema, in WebLLM's words: the schema is a text. */
export interface WebLLMFormat {
  readonly type: "json_object";
  readonly schema: string;
}

/** A conversation whose next turn is asked for. What it does not say is the model's own default. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** Whatever it says: there is one model. */
  readonly model?: string;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
  readonly n?: number | null;
  readonly temperature?: number | null;
  readonly top_p?: number | null;
  readonly top_k?: number | null;
  readonly min_p?: number | null;
  readonly repetition_penalty?: number | null;
  readonly presence_penalty?: number | null;
  readonly frequency_penalty?: number | null;
  readonly logit_bias?: Readonly<Record<string, number>> | null;
  readonly max_tokens?: number | null;
  readonly max_completion_tokens?: number | null;
  readonly min_tokens?: number | null;
  readonly seed?: number | null;
  readonly stop?: string | readonly string[] | null;
  readonly stop_token_ids?: readonly number[] | null;
  readonly ignore_eos?: boolean | null;
  readonly logprobs?: boolean | null;
  readonly top_logprobs?: number | null;
  readonly tools?: readonly ToolDefinition[] | null;
  readonly tool_choice?: ToolChoiceOption | null;
  readonly response_format?: ResponseFormatOption | WebLLMFormat | null;
  readonly reasoning_effort?: ReasoningEffort | "none" | null;
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | null;
  /** What is not read changes no answer, such as `user`, or is refused by name. */
  readonly [other: string]: unknown;
}

/** Parameters by the names that the engine has for them. */
const OPTIONS = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
  presence_penalty: "presencePenalty",
  frequency_penalty: "frequencyPenalty",
  min_tokens: "minTokens",
  seed: "seed",
  stop: "stop",
  stop_token_ids: "stopTokenIds",
  ignore_eos: "ignoreEos",
  logprobs: "logprobs",
  top_logprobs: "topLogprobs",
  tools: "tools",
  tool_choice: "toolChoice",
  reasoning_effort: "reasoning",
  chat_template_kwargs: "variables",
} as const satisfies Readonly<Record<string, keyof ChatOptions>>;

interface Refused {
  readonly remedy: string;
  /** Values that ask for nothing, besides null. */
  readonly harmless?: readonly unknown[];
}

/** Parameters that mean something and are not obeyed. */
const REFUSED: Readonly<Record<string, Refused>> = {
  audio: { remedy: "Answers are text." },
  function_call: { remedy: "Use tool_choice." },
  functions: { remedy: "Use tools." },
  modalities: { remedy: "Answers are text." },
  parallel_tool_calls: { remedy: "Take the first call.", harmless: [true] },
  store: { remedy: "Keep the answer yourself.", harmless: [false] },
  web_search_options: { remedy: "Offer a tool that searches." },
};

/**
 * What the engine is asked.
 *
 * @throws EdgewiseError `unsupported.parameter`, `unsupported.content`, `input.body`.
 */
export function askOf(request: ChatRequest): {
  readonly messages: readonly Message[];
  readonly options: ChatOptions;
} {
  for (const [name, { remedy, harmless = [] }] of Object.entries(REFUSED)) {
    const asked = request[name] ?? null;
    if (asked === null || harmless.includes(asked)) continue;
    const message = `${name} is ${shorten(asked)}, and is not supported.`;
    throw new EdgewiseError("unsupported.parameter", message, remedy);
  }
  const given = Object.entries(OPTIONS).flatMap(([name, option]) => {
    const value = request[name] ?? null;
    return value === null || (Array.isArray(value) && value.length === 0) ? [] : [[option, value]];
  });
  const { max_completion_tokens, max_tokens, logit_bias, response_format } = request;
  const maxTokens = max_completion_tokens ?? max_tokens ?? null;
  const options: ChatOptions = {
    ...Object.fromEntries(given),
    ...(maxTokens === null ? {} : { maxTokens }),
    ...(logit_bias ? { logitBias: biasesOf(logit_bias) } : {}),
    ...(response_format ? { responseFormat: formatOf(response_format) } : {}),
  };
  if (!Array.isArray(request.messages) || request.messages.length === 0) {
    throw new EdgewiseError(
      "input.body",
      `messages is ${shorten(request.messages)}, which is no conversation.`,
      'Send at least one, such as { role: "user", content: "Hello" }.',
    );
  }
  return { messages: request.messages.map(plain), options };
}

function plain(message: ChatMessage, at: number): Message {
  const { content, refusal, role, ...given } = message;
  return {
    ...given,
    role: role === "developer" ? "system" : role,
    content: textOf(content ?? refusal ?? null, `messages.${at}`),
  };
}

function textOf(content: string | readonly ContentPart[] | null, where: string): string | null {
  if (content === null || typeof content === "string") return content;
  return content
    .map((part, at) => {
      const text = part.type === "text" ? part.text : part.refusal;
      if (["text", "refusal"].includes(part.type) && typeof text === "string") return text;
      throw new EdgewiseError(
        "unsupported.content",
        `${where}.content.${at} is of type ${shorten(part.type)}; only text is read.`,
        'Send parts such as { type: "text", text: "Hello" }.',
      );
    })
    .join("");
}

function formatOf(format: ResponseFormatOption | WebLLMFormat): ResponseFormatOption {
  if (typeof format === "string" || !("schema" in format)) return format;
  try {
    return { type: "json_schema", json_schema: { schema: JSON.parse(format.schema) } };
  } catch {
    throw new EdgewiseError(
      "input.body",
      `response_format.schema is ${shorten(format.schema)}, which is no JSON.`,
      "Send the schema as JSON.stringify writes it.",
    );
  }
}

function biasesOf(biases: Readonly<Record<string, number>>): Readonly<Record<number, number>> {
  for (const token of Object.keys(biases)) {
    if (/^\d{1,9}$/.test(token)) continue;
    throw new EdgewiseError(
      "input.body",
      `logit_bias has a key ${shorten(token)}, which is no token.`,
      'Keys are ids of tokens, such as { "42": -100 }.',
    );
  }
  return biases;
}
