/** A model for Vercel's AI SDK over an engine: asked by the SDK itself. */

import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { describe, expect, test } from "vitest";
import { createEdgewise } from "../../adapters/ai-sdk/index.ts";
import type { Delta } from "../../calls/deltas.ts";
import { Pieces } from "../../client/generation.ts";
import type { AnyEngine } from "../../client/remote.ts";
import type { ChatOptions, Completion, Message } from "../../client/types.ts";
import { EdgewiseError } from "../../errors.ts";

const COMPLETION: Completion = {
  text: "It rains.",
  reasoning: "",
  toolCalls: [],
  written: "It rains.",
  tokenIds: [1, 2, 3],
  finishReason: "stop",
  usage: { promptTokens: 5, cachedTokens: 4, completionTokens: 3, totalTokens: 8 },
  timings: {
    ttftMs: 250,
    prefillMs: 1,
    decodeMs: 1,
    prefillTokensPerSecond: 100,
    decodeTokensPerSecond: 50,
    decodeTokens: 2,
  },
  seed: "7",
  contextFull: false,
  droppedTurns: 0,
};
const CALL: Completion = {
  ...COMPLETION,
  text: "",
  toolCalls: [{ id: "c1", name: "rain", text: '{"in":"Rome"}', arguments: { in: "Rome" } }],
  finishReason: "tool_calls",
};
const CALLING: readonly Delta[] = [
  { kind: "call begins", index: 0, id: "c1", name: "rain" },
  { kind: "arguments", index: 0, text: '{"in":' },
  { kind: "arguments", index: 0, text: '"Rome"}' },
  { kind: "call ends", index: 0 },
];
const SAYING: readonly Delta[] = [
  { kind: "reasoning", text: "Hm" },
  { kind: "content", text: "It " },
  { kind: "content", text: "rains." },
];
const SCHEMA = {
  type: "object",
  properties: { in: { type: "string" } },
  required: ["in"],
} as const;

interface Turn {
  /** Left out, it comes once the request is aborted, as one that was. */
  readonly completion?: Completion | Promise<Completion>;
  readonly deltas?: readonly Delta[];
}

function aborted(signal: AbortSignal | undefined): Promise<Completion> {
  return new Promise((resolve) => {
    const cancelled = { ...COMPLETION, finishReason: "cancelled" } as const;
    signal?.addEventListener("abort", () => resolve(cancelled));
  });
}

async function partsOf<T>(stream: ReadableStream<T>): Promise<T[]> {
  const parts: T[] = [];
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value);
  }
  return parts;
}

/** An engine that answers so, a turn after the other. */
function answering(...turns: readonly Turn[]) {
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
      const turn = turns[asked.length];
      if (!turn) throw new Error("nobody asks again");
      asked.push({ messages, options });
      return new Pieces((onDeltas) => {
        onDeltas(turn.deltas ?? [], []);
        const completion = turn.completion ?? aborted(options.signal);
        return { completion: Promise.resolve(completion), stop: () => void stopped++ };
      });
    },
    generate() {
      throw new Error("nobody generates");
    },
    close: () => Promise.resolve(),
  };
  return { model: createEdgewise(engine)(), asked, stopped: () => stopped };
}

const rain = tool({
  description: "Whether it rains",
  inputSchema: jsonSchema<{ in: string }>(SCHEMA),
  execute: ({ in: where }) => `rain in ${where}`,
});

describe("generateText", () => {
  test("asks in the engine's words and tells usage", async () => {
    const { model, asked } = answering({ completion: COMPLETION });
    const { text, usage, finishReason } = await generateText({
      model,
      system: "Be kind.",
      prompt: "Hello",
      maxOutputTokens: 9,
      temperature: 0.5,
      topP: 0.9,
      topK: 4,
      seed: 3,
      stopSequences: ["END"],
    });
    expect(text).toBe("It rains.");
    expect(finishReason).toBe("stop");
    expect(usage).toMatchObject({
      inputTokens: 5,
      outputTokens: 3,
      inputTokenDetails: { cacheReadTokens: 4, noCacheTokens: 1 },
      outputTokenDetails: { reasoningTokens: 0 },
    });
    expect(asked[0]?.messages).toEqual([
      { role: "system", content: "Be kind." },
      { role: "user", content: "Hello" },
    ]);
    expect(asked[0]?.options).toMatchObject({
      maxTokens: 9,
      temperature: 0.5,
      topP: 0.9,
      topK: 4,
      seed: 3,
      stop: ["END"],
    });
  });

  test("runs tools and goes on with their results", async () => {
    const { model, asked } = answering({ completion: CALL }, { completion: COMPLETION });
    const { text, steps } = await generateText({
      model,
      prompt: "Rain?",
      tools: { rain },
      toolChoice: "auto",
      stopWhen: stepCountIs(3),
    });
    expect(text).toBe("It rains.");
    expect(steps).toHaveLength(2);
    expect(asked[0]?.options).toMatchObject({
      toolChoice: "auto",
      tools: [{ type: "function", function: { name: "rain", parameters: SCHEMA } }],
    });
    expect(asked[1]?.messages.slice(1)).toEqual([
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "c1", type: "function", function: { name: "rain", arguments: '{"in":"Rome"}' } },
        ],
      },
      { role: "tool", content: "rain in Rome", tool_call_id: "c1", name: "rain" },
    ]);
  });

  test("gives an object that follows a schema", async () => {
    const { model, asked } = answering({ completion: { ...COMPLETION, text: '{"in":"Rome"}' } });
    const schema = jsonSchema<{ in: string }>(SCHEMA);
    const { output } = await generateText({
      model,
      prompt: "Where?",
      output: Output.object({ schema }),
    });
    expect(output).toEqual({ in: "Rome" });
    expect(asked[0]?.options.responseFormat).toMatchObject({
      type: "json_schema",
      json_schema: { schema: SCHEMA },
    });
  });

  test("is refused for an image", async () => {
    const { model, asked } = answering({ completion: COMPLETION });
    const image = { type: "file", data: new Uint8Array([1]), mediaType: "image/png" } as const;
    const failing = generateText({ model, messages: [{ role: "user", content: [image] }] });
    await expect(failing).rejects.toMatchObject({ code: "unsupported.content" });
    expect(asked).toEqual([]);
  });

  test("throws what ended it", async () => {
    const { model } = answering({ completion: { ...COMPLETION, finishReason: "cancelled" } });
    const abortSignal = AbortSignal.abort();
    const failing = generateText({ model, prompt: "Hello", abortSignal });
    await expect(failing).rejects.toMatchObject({ name: "AbortError" });
  });
});

describe("streamText", () => {
  test("streams thoughts and text as parts of their own", async () => {
    const { model } = answering({
      completion: { ...COMPLETION, reasoning: "Hm" },
      deltas: SAYING,
    });
    const { stream } = await model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Rain?" }] }],
    });
    expect((await partsOf(stream)).map(({ type }) => type)).toEqual([
      "stream-start",
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "text-start",
      "text-delta",
      "text-delta",
      "text-end",
      "finish",
    ]);
  });

  test("runs tools and goes on with their results", async () => {
    const { model, asked } = answering(
      { completion: CALL, deltas: CALLING },
      { completion: COMPLETION, deltas: SAYING },
    );
    const result = streamText({
      model,
      prompt: "Rain?",
      tools: { rain },
      stopWhen: stepCountIs(3),
    });
    expect(await result.text).toBe("It rains.");
    expect(asked[1]?.messages.at(-1)).toMatchObject({ role: "tool", content: "rain in Rome" });
  });

  test("that is aborted in its middle ends with what there is, and no error", async () => {
    const { model } = answering({ deltas: SAYING });
    const ending = new AbortController();
    const heard: string[] = [];
    const result = streamText({
      model,
      prompt: "Rain?",
      abortSignal: ending.signal,
      onAbort: () => void heard.push("abort"),
      onError: () => void heard.push("error"),
    });
    const told: string[] = [];
    for await (const part of result.stream) {
      told.push(part.type === "text-delta" ? part.text : part.type);
      if (part.type === "text-delta") ending.abort();
    }
    expect(told).toContain("It ");
    expect(told.at(-1)).toBe("abort");
    expect(told).not.toContain("error");
    expect(heard).toEqual(["abort"]);
  });

  test("that fails tells what came, the error, and that nobody counted", async () => {
    const error = new EdgewiseError("device.lost", "The GPU was lost.", "Reload the page.");
    const { model } = answering({ completion: Promise.reject(error), deltas: SAYING });
    const { stream } = await model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Rain?" }] }],
    });
    const parts = await partsOf(stream);
    expect(parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : []))).toEqual([
      "It ",
      "rains.",
    ]);
    expect(parts.slice(-2)).toEqual([
      { type: "error", error },
      {
        type: "finish",
        finishReason: { unified: "error", raw: undefined },
        usage: expect.objectContaining({
          outputTokens: expect.objectContaining({ total: undefined }),
        }),
      },
    ]);
    const again = answering({ completion: Promise.reject(error), deltas: SAYING });
    const failing = generateText({ model: again.model, prompt: "Rain?", maxRetries: 0 });
    await expect(failing).rejects.toMatchObject({ code: "device.lost" });
  });

  test("that begins a call which is none goes on as text", async () => {
    const { model } = answering({
      completion: { ...COMPLETION, text: '<tool_call>{"in' },
      deltas: [
        { kind: "call begins", index: 0, id: "c1", name: "rain" },
        { kind: "arguments", index: 0, text: '{"in' },
        { kind: "no call", index: 0, text: '<tool_call>{"in', why: "cut" },
      ],
    });
    const result = streamText({ model, prompt: "Rain?", tools: { rain } });
    const told: string[] = [];
    for await (const { type } of result.stream) told.push(type);
    expect(told.filter((type) => type.startsWith("t"))).toEqual([
      "tool-input-start",
      "tool-input-delta",
      "tool-input-end",
      "text-start",
      "text-delta",
      "text-end",
    ]);
    expect(await result.text).toBe('<tool_call>{"in');
    expect(await result.toolCalls).toEqual([]);
    expect(await result.finishReason).toBe("stop");
  });

  test("warns of what is left out or asked otherwise", async () => {
    const { model, asked } = answering({ completion: COMPLETION, deltas: SAYING });
    const { stream } = await model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Rain?" }] }],
      tools: [{ type: "provider", id: "other.search", name: "search", args: {} }],
      reasoning: "max",
    });
    const [first] = await partsOf(stream);
    expect(first).toMatchObject({
      type: "stream-start",
      warnings: [
        { type: "unsupported", feature: "provider-defined tool other.search" },
        { type: "compatibility", feature: "reasoning" },
      ],
    });
    expect(asked[0]?.options).toMatchObject({ reasoning: "xhigh" });
    expect(asked[0]?.options).not.toHaveProperty("tools");
  });

  test.each([
    ["of this tab", 2, { reasoningTokens: 2, textTokens: 1 }],
    [
      "of a host, which does not say",
      undefined,
      { reasoningTokens: undefined, textTokens: undefined },
    ],
  ])("counts the tokens of a thought %s", async (_, thoughtTokens, counted) => {
    const thought = { ...COMPLETION, reasoning: "Hm" };
    const completion = thoughtTokens === undefined ? thought : { ...thought, thoughtTokens };
    const { model } = answering({ completion, deltas: SAYING });
    const result = streamText({ model, prompt: "Rain?" });
    expect(await result.reasoningText).toBe("Hm");
    expect((await result.usage).outputTokenDetails).toMatchObject(counted);
  });

  test("stops the answer where nobody reads on", async () => {
    const { model, stopped } = answering({ completion: new Promise(() => {}), deltas: SAYING });
    const { stream } = await model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "Rain?" }] }],
    });
    await stream.cancel();
    expect(stopped()).toBe(1);
  });
});
