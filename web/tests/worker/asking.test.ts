import { describe, expect, it } from "vitest";
import type { Completion, FinishReason } from "../../client/types.ts";
import { AnswerReader } from "../../engine/answer.ts";
import { askedOf } from "../../worker/asking.ts";
import type { Wanted } from "../../worker/protocol.ts";

const parameters = { type: "object", properties: { x: { type: "integer" } } };
const tools = [{ type: "function", function: { name: "add", parameters } }] as const;
const CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>';

const completion = (finishReason: FinishReason): Completion => ({
  text: "",
  reasoning: "",
  toolCalls: [],
  written: "",
  tokenIds: [1],
  finishReason,
  usage: { promptTokens: 1, cachedTokens: 0, completionTokens: 1, totalTokens: 2 },
  timings: {
    ttftMs: 0,
    prefillMs: 0,
    decodeMs: 0,
    prefillTokensPerSecond: 0,
    decodeTokensPerSecond: 0,
    decodeTokens: 0,
  },
  seed: "0",
  contextFull: false,
  droppedTurns: 0,
});

function read(reader: AnswerReader, text: string, finish: FinishReason = "stop") {
  for (const character of text) reader.push(character);
  reader.end();
  const { text: said, reasoning, toolCalls, finishReason } = reader.completed(completion(finish));
  return { said, reasoning, calls: toolCalls.map(({ id: _, ...call }) => call), finishReason };
}

const NOTHING: Wanted = {
  responseFormat: undefined,
  tools: undefined,
  toolChoice: undefined,
  toolFormat: undefined,
  reasoning: undefined,
};
const answered = (wanted: Partial<Wanted>, prompt = "") =>
  askedOf({ ...NOTHING, toolFormat: "hermes", ...wanted }, null).toText(prompt);

describe("an answer", () => {
  it("is thought, text and calls, and ends with them", () => {
    const reader = answered({ tools }).makeReader();
    expect(read(reader, `<think>\nhm\n</think>\n\nI add.\n${CALL}\n${CALL}`)).toEqual({
      said: "I add.",
      reasoning: "hm",
      calls: Array(2).fill({ name: "add", text: '{"x": 1}', arguments: { x: 1 } }),
      finishReason: "tool_calls",
    });
  });

  it.each(["length", "cancelled"] as const)("that was cut off is no less so (%s)", (reason) => {
    const reader = answered({ tools }).makeReader();
    expect(read(reader, CALL, reason)).toMatchObject({ finishReason: reason, calls: [{}] });
  });

  it("has in its text what began as a call and is none", () => {
    const reader = answered({ tools }).makeReader();
    const broken = '<tool_call>{"name": "add", "arguments": {"x": }}';
    const found = read(reader, broken);
    expect(found).toMatchObject({ calls: [], finishReason: "stop" });
    expect(found.said).toBe(broken);
  });

  it("without tools calls none, and has its thought apart all the same", () => {
    const { makeReader, marks } = answered({}, "a <think>\n");
    const reader = makeReader();
    expect(read(reader, `hm</think>${CALL}\n `)).toEqual({
      said: `${CALL}\n `,
      reasoning: "hm",
      calls: [],
      finishReason: "stop",
    });
    expect(marks).toEqual(["<think>", "</think>"]);
  });

  it("in channels is told by them, tools or not", () => {
    const { makeReader, marks } = answered({ toolFormat: "harmony" });
    const reader = makeReader();
    const text =
      "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi";
    expect(read(reader, text)).toMatchObject({ said: "Hi", reasoning: "hm" });
    expect(marks).toContain("<|channel|>");
  });

  it("of a text is that text", () => {
    const text = `<think>hm</think> ${CALL}`;
    expect(read(new AnswerReader(), text)).toMatchObject({ said: text, reasoning: "", calls: [] });
  });

  it("that was asked to be JSON is read as it, unless it was cut off", () => {
    const responseFormat = { type: "json_object" } as const;
    const parsed = (text: string) => {
      const reader = answered({ responseFormat }).makeReader();
      reader.push(text);
      reader.end();
      return reader.completed(completion("stop")).parsed;
    };
    expect(parsed('<think>hm</think>{"a": [1]}')).toEqual({ a: [1] });
    expect(parsed('{"a": [1')).toBeUndefined();
  });
});

describe("what an answer is held to", () => {
  it("is what is asked for, and calls that may come", () => {
    const held = (wanted: Partial<Wanted>) => answered(wanted).hold;
    expect(held({})).toBeNull();
    expect(held({ tools })).toMatchObject({ calls: { choice: "auto", name: null } });
    expect(held({ tools, toolChoice: "none" })).toBeNull();
    expect(held({ responseFormat: "text" })).toBeNull();
    expect(held({ responseFormat: "json" })).toMatchObject({ answer: { kind: "json_object" } });
    expect(held({ tools, toolChoice: "required" })).toMatchObject({
      answer: null,
      calls: { choice: "required", tools: { add: parameters } },
    });
    const toolChoice = { type: "function", function: { name: "add" } } as const;
    expect(held({ tools, toolChoice })).toMatchObject({ calls: { choice: "named", name: "add" } });
    expect(held({ reasoning: { budget: 3 } })).toMatchObject({ budget: 3, calls: null });
  });
});
