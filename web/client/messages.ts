/** An answer and the results of its calls as messages, to go on with a conversation. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { CalledTool, Completion, Message } from "./types.ts";

/** An answer as a message. */
export function answerMessage({ text, reasoning, toolCalls }: Completion): Message {
  const calls = toolCalls.map(({ id, name, text: written }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: written },
  }));
  return {
    role: "assistant",
    content: calls.length > 0 && text === "" ? null : text,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

/**
 * The message that tells the model what a call gave: text as it is, and anything else as JSON.
 *
 * @throws EdgewiseError `input.tool_result` for what JSON cannot hold.
 */
export function toolResult({ id, name }: Pick<CalledTool, "id" | "name">, value: unknown): Message {
  return { role: "tool", tool_call_id: id, name, content: written(value, name) };
}

function written(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  let text: unknown;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined;
  }
  if (typeof text === "string") return text;
  throw new EdgewiseError(
    "input.tool_result",
    `The tool ${shorten(name)} gave ${shorten(value)}, which is neither text nor JSON.`,
    "Let it return text, or plain objects, lists, numbers and texts.",
  );
}
