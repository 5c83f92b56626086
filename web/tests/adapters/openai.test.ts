/** OpenAI's words over an engine: what is asked of it, and what is told of its answer. */

import { describe, expect, test } from "vitest";
import { openai } from "../../adapters/openai/openai.ts";
import { askOf, type ChatRequest } from "../../adapters/openai/request.ts";
import type { Delta } from "../../calls/deltas.ts";
import { Pieces } from "../../client/generation.ts";
import type { AnyEngine } from "../../client/remote.ts";
import type { ChatOptions, Completion, Message } from "../../client/types.ts";

const MESSAGES = [{ role: "user" as const, content: "Hello" }];
const TIMINGS = {
  ttftMs: 250,
  prefillMs: 1,
  decodeMs: 1,
  prefillTokensPerSecond: 100,
  decodeTokensPerSecond: 50,
  decodeTokens: 2,
};
const COMPLETION: Completion = {
  text: "It rains.",
  reasoning: "Where?",
  toolCalls: [],
  written: "<think>Where?</think>It rains.",
  tokenIds: [1, 2, 3],
  finishReason: "stop",
  usage: { promptTokens: 5, cachedTokens: 4, completionTokens: 3, totalTokens: 8 },
  timings: TIMINGS,
  seed: "7",
  contextFull: false,
  droppedTurns: 0,
};
const CALL: Completion = {
  ...COMPLETION,
  text: "",
  reasoning: "",
  toolCalls: [{ id: "c1", name: "rain", text: '{"in":"Rome"}', arguments: { in: "Rome" } }],
  finishReason: "tool_calls",
};

/** An engine that answers so, whatever it is asked. */
function answering(completion: Completion | Promise<Completion>, deltas: readonly Delta[]) {
  const asked: { messages: readonly Message[]; options: ChatOptions }[] = [];
  let stopped = 0;
  const engine: AnyEngine = {
    info: {
      name: "demo-q4",
      family: "llama",
      quant: "q4",
      context: 512,
      tokenizer: "",
      thinking: null,
    },
    chat(messages, options = {}) {
      asked.push({ messages, options });
      return new Pieces((onDeltas) => {
        onDeltas(deltas, []);
        return { completion: Promise.resolve(completion), stop: () => void stopped++ };
      });
    },
    generate() {
      throw new Error("nobody generates");
    },
    close: () => Promise.resolve(),
  };
  return { engine, asked, stopped: () => stopped, client: openai(engine).chat.completions };
}

describe("a request", () => {
  test("is asked in the engine's words, without what nobody said", () => {
    const { messages, options } = askOf({
      messages: [
        {
          role: "developer",
          content: [
            { type: "text", text: "Be " },
            { type: "text", text: "kind." },
          ],
        },
        ...MESSAGES,
        { role: "assistant", refusal: "No.", tool_calls: [] },
        { role: "tool", content: "sun", tool_call_id: "c1" },
      ],
      model: "whatever",
      user: "somebody",
      temperature: 0,
      top_p: null,
      max_tokens: 9,
      max_completion_tokens: 7,
      logit_bias: { "42": -100 },
      n: 1,
      logprobs: false,
      tools: [],
      stop: ["a", "b"],
      seed: 3,
      reasoning_effort: "low",
      response_format: { type: "json_object" },
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(messages).toEqual([
      { role: "system", content: "Be kind." },
      { role: "user", content: "Hello" },
      { role: "assistant", content: "No.", tool_calls: [] },
      { role: "tool", content: "sun", tool_call_id: "c1" },
    ]);
    expect(options).toEqual({
      temperature: 0,
      maxTokens: 7,
      logitBias: { "42": -100 },
      stop: ["a", "b"],
      seed: 3,
      logprobs: false,
      reasoning: "low",
      responseFormat: { type: "json_object" },
      variables: { enable_thinking: false },
    });
  });

  test("may bring its schema as a text, as WebLLM's do", () => {
    const schema = { type: "object", properties: { city: { type: "string" } } };
    const response_format = { type: "json_object", schema: JSON.stringify(schema) } as const;
    const { options } = askOf({ messages: MESSAGES, response_format });
    expect(options).toEqual({ responseFormat: { type: "json_schema", json_schema: { schema } } });
  });

  test.each<[string, Partial<ChatRequest>, string]>([
    ["schema", { response_format: { type: "json_object", schema: "{city}" } }, "input.body"],
    ["n", { n: 2 }, "unsupported.parameter"],
    ["parallel_tool_calls", { parallel_tool_calls: false }, "unsupported.parameter"],
    ["logit_bias", { logit_bias: { the: 1 } }, "input.body"],
    ["messages", { messages: [] }, "input.body"],
    [
      "image_url",
      { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      "unsupported.content",
    ],
  ])("is refused for %s", async (named, more, code) => {
    const { client, asked } = answering(COMPLETION, []);
    const failing = client.create({ messages: MESSAGES, ...more });
    await expect(failing).rejects.toMatchObject({ code, message: expect.stringContaining(named) });
    expect(asked).toEqual([]);
  });
});

describe("an answer", () => {
  test("is told as a whole", async () => {
    const { client } = answering(COMPLETION, []);
    const told = await client.create({ messages: MESSAGES });
    expect(told).toMatchObject({
      object: "chat.completion",
      model: "demo-q4",
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: "It rains.",
            reasoning_content: "Where?",
            refusal: null,
          },
          finish_reason: "stop",
        },
      ],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 3,
        total_tokens: 8,
        prompt_tokens_details: { cached_tokens: 4 },
        extra: { time_to_first_token_s: 0.25, decode_tokens_per_s: 50 },
      },
    });
    expect(told.id).toMatch(/^chatcmpl-[0-9a-f]{32}$/);
    expect(told.choices[0].message).not.toHaveProperty("tool_calls");
  });

  test("says how many of its tokens were thought, where somebody counted", async () => {
    const { client } = answering({ ...COMPLETION, reasoning: "Hm", thoughtTokens: 2 }, []);
    const { usage } = await client.create({ messages: MESSAGES });
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: 2 });
  });

  test("that calls has no content", async () => {
    const { client } = answering(CALL, []);
    const [{ message, finish_reason }] = (await client.create({ messages: MESSAGES })).choices;
    expect(finish_reason).toBe("tool_calls");
    expect(message).toEqual({
      role: "assistant",
      content: null,
      refusal: null,
      tool_calls: [
        { id: "c1", type: "function", function: { name: "rain", arguments: '{"in":"Rome"}' } },
      ],
    });
  });

  test("is told in chunks, calls as they come and usage where it is asked for", async () => {
    const { client } = answering(CALL, [
      { kind: "reasoning", text: "Hm" },
      { kind: "content", text: "" },
      { kind: "call begins", index: 0, id: "c1", name: "rain" },
      { kind: "arguments", index: 0, text: '{"in":' },
      { kind: "arguments", index: 0, text: '"Rome"}' },
      { kind: "call ends", index: 0 },
      { kind: "no call", index: null, text: "<tool", why: "cut" },
    ]);
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    const told = [];
    for await (const chunk of await client.create({ messages: MESSAGES, ...options })) {
      told.push(chunk);
    }
    expect(new Set(told.map(({ id, object }) => `${id} ${object}`)).size).toBe(1);
    expect(told.map(({ choices: [choice] }) => choice?.delta)).toEqual([
      { role: "assistant", content: "" },
      { reasoning_content: "Hm" },
      {
        tool_calls: [
          { index: 0, id: "c1", type: "function", function: { name: "rain", arguments: "" } },
        ],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"in":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"Rome"}' } }] },
      { content: "<tool" },
      {},
      undefined,
    ]);
    expect(told.at(-2)?.choices[0]?.finish_reason).toBe("tool_calls");
    expect(told.map(({ usage }) => usage?.total_tokens ?? null)).toEqual([
      ...Array(7).fill(null),
      8,
    ]);
  });

  test("ends where its loop is left", async () => {
    const { client, stopped } = answering(new Promise(() => {}), [
      { kind: "content", text: "a" },
      { kind: "content", text: "b" },
    ]);
    const stream = await client.create({ messages: MESSAGES, stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content === "a") break;
    expect(stopped()).toBe(1);
  });
});

describe("several answers", () => {
  const likely = (tokenId: number, text: string, logprob: number) => {
    const bytes = [...new TextEncoder().encode(text)];
    return { tokenId, text, bytes, logprob };
  };
  const LOGPROBS = ["It", " rains."].map((text, at) => ({
    ...likely(at, text, -0.5),
    top: [likely(at, text, -0.5), likely(9, "No", Number.NEGATIVE_INFINITY)],
  }));
  const told = (text: string) => {
    const bytes = [...new TextEncoder().encode(text)];
    return {
      token: text,
      logprob: -0.5,
      bytes,
      top_logprobs: [
        { token: text, logprob: -0.5, bytes },
        { token: "No", logprob: -9999, bytes: [78, 111] },
      ],
    };
  };

  /** An engine whose choices come in turn, a token each time. */
  function choosing() {
    const { engine } = answering(COMPLETION, []);
    const asked: ChatOptions[] = [];
    const choices: AnyEngine["choices"] = (_, { n, ...options }) => {
      asked.push({ ...options });
      return Array.from({ length: n }, (_, index) => {
        const tokens = { promptTokens: 5, cachedTokens: 4 * index, totalTokens: 8 + index };
        const usage = { ...tokens, completionTokens: 3 + index };
        const completion = { ...COMPLETION, text: `It rains. ${index}`, usage, logprobs: LOGPROBS };
        return new Pieces((onDeltas) => {
          onDeltas([{ kind: "content", text: `It${index}` }], [1], LOGPROBS.slice(0, 1));
          return { completion: Promise.resolve(completion), stop: () => {} };
        });
      });
    };
    return { asked, client: openai({ ...engine, choices }).chat.completions };
  }
  const REQUEST = { messages: MESSAGES, n: 2, logprobs: true, top_logprobs: 2 };

  test("are told as a whole, their prompt counted once and how likely each token was", async () => {
    const { client, asked } = choosing();
    const answer = await client.create(REQUEST);
    expect(asked).toEqual([{ logprobs: true, topLogprobs: 2 }]);
    expect(answer.choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, "It rains. 0"],
      [1, "It rains. 1"],
    ]);
    const content = [told("It"), told(" rains.")];
    expect(answer.choices.map(({ logprobs }) => logprobs)).toEqual(
      [0, 1].map(() => ({ content, refusal: null })),
    );
    expect(answer.usage).toMatchObject({
      prompt_tokens: 5,
      completion_tokens: 7,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 0 },
    });
  });

  test("are told in chunks, each with its index and its tokens", async () => {
    const { client } = choosing();
    const stream = await client.create({ ...REQUEST, stream: true });
    const said: Record<number, unknown[]> = { 0: [], 1: [] };
    for await (const { choices } of stream) {
      const [{ index, ...choice } = { index: -1 }] = choices;
      said[index]?.push(choice);
    }
    const chunk = (delta: unknown, tokens: unknown[] = [], reason: string | null = null) => ({
      delta,
      logprobs: tokens.length > 0 ? { content: tokens, refusal: null } : null,
      finish_reason: reason,
    });
    for (const index of [0, 1]) {
      expect(said[index]).toEqual([
        chunk({ role: "assistant", content: "" }),
        chunk({ content: `It${index}` }, [told("It")]),
        chunk({}, [told(" rains.")]),
        chunk({}, [], "stop"),
      ]);
    }
  });
});
