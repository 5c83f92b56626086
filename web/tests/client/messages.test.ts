import { describe, expect, it } from "vitest";
import { answerMessage, toolResult } from "../../client/messages.ts";
import type { Completion } from "../../client/types.ts";

const CALL = { id: "c1", name: "add", text: '{"x": 1}', arguments: { x: 1 } };
const answered = (parts: Partial<Completion>) =>
  answerMessage({ text: "", reasoning: "", toolCalls: [], ...parts } as Completion);

describe("an answer as a message", () => {
  it("has what was said and thought", () => {
    expect(answered({ text: "Hi" })).toEqual({ role: "assistant", content: "Hi" });
    expect(answered({ text: "Hi", reasoning: "hm" })).toEqual({
      role: "assistant",
      content: "Hi",
      reasoning_content: "hm",
    });
  });

  it("has its calls, and no content where it is only calls", () => {
    const tool_calls = [
      { id: "c1", type: "function", function: { name: "add", arguments: '{"x": 1}' } },
    ];
    const message = { role: "assistant", content: null, tool_calls };
    expect(answered({ toolCalls: [CALL] })).toEqual(message);
    expect(answered({ text: "I add.", toolCalls: [CALL] })).toEqual({
      ...message,
      content: "I add.",
    });
  });
});

describe("the result of a call", () => {
  it.each([
    ["2", "2"],
    [2, "2"],
    [{ sum: [2, null] }, '{"sum":[2,null]}'],
  ])("%j is a message with its text", (value, content) => {
    const message = { role: "tool", tool_call_id: "c1", name: "add", content };
    expect(toolResult(CALL, value)).toEqual(message);
  });

  const itself: unknown[] = [];
  itself.push(itself);
  it.each([undefined, () => 1, 1n, itself])("that is neither text nor JSON is refused", (value) => {
    expect(() => toolResult(CALL, value)).toThrow(
      expect.objectContaining({ code: "input.tool_result" }),
    );
  });
});
