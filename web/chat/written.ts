/** An answer as it grows: what is said, thought and called. */

import type { AnswerDelta } from "../client/types.ts";
import type { ChatMessage } from "./conversations.ts";

/** A call of a tool, or what is there of it. */
export interface WrittenCall {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  /** JSON text, as far as it is there. */
  readonly arguments: string;
  /** Whether all of it is there. */
  readonly complete: boolean;
}

/** An answer of which nothing has come yet. */
export function unwritten(message: ChatMessage): ChatMessage {
  const { stats: _, thought: __, calls: ___, ...others } = message;
  return { ...others, content: "" };
}

/** An answer and what comes next of it. */
export function withDelta(message: ChatMessage, delta: AnswerDelta): ChatMessage {
  const { content, thought = "", calls = [] } = message;
  const changed = (changes: (call: WrittenCall) => Partial<WrittenCall>, index: number) => ({
    ...message,
    calls: calls.map((call) => (call.index === index ? { ...call, ...changes(call) } : call)),
  });
  switch (delta.kind) {
    case "content":
      return { ...message, content: content + delta.text };
    case "reasoning":
      return { ...message, thought: thought + delta.text };
    case "call begins": {
      const { index, id, name } = delta;
      return { ...message, calls: [...calls, { index, id, name, arguments: "", complete: false }] };
    }
    case "arguments":
      return changed((call) => ({ arguments: call.arguments + delta.text }), delta.index);
    case "call ends":
      return changed(() => ({ complete: true }), delta.index);
    case "no call": {
      const left = calls.filter(({ index }) => index !== delta.index);
      return { ...message, content: content + delta.text, calls: left };
    }
  }
}
