import { describe, expect, it } from "vitest";
import type { ChatMessage } from "../../chat/conversations.ts";
import { unwritten, withDelta } from "../../chat/written.ts";
import type { AnswerDelta } from "../../client/types.ts";

const BLANK: ChatMessage = { id: "a", parent: "q", role: "assistant", content: "" };
const written = (...deltas: readonly AnswerDelta[]) => deltas.reduce(withDelta, BLANK);
const begins = (index: number): AnswerDelta => ({
  kind: "call begins",
  index,
  id: `c${index}`,
  name: "add",
});

describe("an answer", () => {
  it("grows by what is thought, said and called", () => {
    const call = { id: "c0", name: "add", arguments: '{"x": 1}' };
    expect(
      written(
        { kind: "reasoning", text: "h" },
        { kind: "reasoning", text: "m" },
        { kind: "content", text: "I " },
        { kind: "content", text: "add." },
        begins(0),
        { kind: "arguments", index: 0, text: '{"x"' },
        { kind: "arguments", index: 0, text: ": 1}" },
        { kind: "call ends", index: 0 },
        begins(1),
      ),
    ).toEqual({
      ...BLANK,
      thought: "hm",
      content: "I add.",
      calls: [
        { ...call, index: 0, complete: true },
        { ...call, index: 1, id: "c1", arguments: "", complete: false },
      ],
    });
  });

  it("says what began as a call and is none", () => {
    const why = "malformed";
    expect(written(begins(0), { kind: "no call", index: 0, text: "<call", why })).toEqual({
      ...BLANK,
      content: "<call",
      calls: [],
    });
  });

  it("that goes on is told from its beginning", () => {
    const whole = written({ kind: "reasoning", text: "hm" }, { kind: "content", text: "I" });
    expect(unwritten({ ...whole, thoughtMs: 5 })).toEqual({ ...BLANK, thoughtMs: 5 });
  });
});
