import { describe, expect, it } from "vitest";
import { formatNamed } from "../../calls/formats.ts";
import type { Tools } from "../../calls/source.ts";
import type { Completion, FinishReason } from "../../client/types.ts";
import { AnswerReader, answerIn } from "../../engine/answer.ts";

const TOOLS: Tools = { add: { type: "object", properties: { x: { type: "integer" } } } };
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

const answered = (callable: Tools | null, opened = false, name = "hermes") =>
  answerIn({ format: formatNamed(name), callable }, opened);

describe("an answer", () => {
  it("is thought, text and calls, and ends with them", () => {
    const { reader } = answered(TOOLS);
    expect(read(reader, `<think>\nhm\n</think>\n\nI add.\n${CALL}\n${CALL}`)).toEqual({
      said: "I add.",
      reasoning: "hm",
      calls: Array(2).fill({ name: "add", text: '{"x": 1}', arguments: { x: 1 } }),
      finishReason: "tool_calls",
    });
  });

  it.each(["length", "cancelled"] as const)("that was cut off is no less so (%s)", (reason) => {
    const { reader } = answered(TOOLS);
    expect(read(reader, CALL, reason)).toMatchObject({ finishReason: reason, calls: [{}] });
  });

  it("has in its text what began as a call and is none", () => {
    const { reader } = answered(TOOLS);
    const broken = '<tool_call>{"name": "add", "arguments": {"x": }}';
    const found = read(reader, broken);
    expect(found).toMatchObject({ calls: [], finishReason: "stop" });
    expect(found.said).toBe(broken);
  });

  it("without tools calls none, and has its thought apart all the same", () => {
    const { reader, marks } = answered(null, true);
    expect(read(reader, `hm</think>${CALL}\n `)).toEqual({
      said: `${CALL}\n `,
      reasoning: "hm",
      calls: [],
      finishReason: "stop",
    });
    expect(marks).toEqual(["<think>", "</think>"]);
  });

  it("in channels is told by them, tools or not", () => {
    const { reader, marks } = answered(null, false, "harmony");
    const text =
      "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi";
    expect(read(reader, text)).toMatchObject({ said: "Hi", reasoning: "hm" });
    expect(marks).toContain("<|channel|>");
  });

  it("of a text is that text", () => {
    const text = `<think>hm</think> ${CALL}`;
    expect(read(new AnswerReader(), text)).toMatchObject({ said: text, reasoning: "", calls: [] });
  });
});
