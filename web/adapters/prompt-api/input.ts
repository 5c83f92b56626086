/** What is prompted, as messages for the engine: the specification's "validate and canonicalize a prompt". */

import type { Message } from "../../client/types.ts";
import { shorten } from "../../errors.ts";
import { refused } from "./errors.ts";

export interface Input {
  readonly messages: readonly Message[];
  /** What the answer begins with. */
  readonly prefix: string;
}

const ROLES: readonly unknown[] = ["system", "user", "assistant"];
const OTHER_TYPES: readonly unknown[] = ["image", "audio", "tool-call", "tool-response"];

/**
 * @param prefixed whether an answer follows, which may have a beginning.
 * @throws TypeError for what is no prompt, SyntaxError for a prefix elsewhere than last, NotSupportedError for what is
 *   no text.
 */
export function inputOf(prompt: unknown, prefixed = false): Input {
  if (!Array.isArray(prompt)) return { messages: [user(String(prompt))], prefix: "" };
  if (prompt.length === 0) return { messages: [user("")], prefix: "" };
  const messages: Message[] = [];
  for (const [at, given] of (prompt as readonly unknown[]).entries()) {
    const { role, content, prefix } = tableOf(given, `The message ${at}`);
    if (!ROLES.includes(role))
      throw new TypeError(`The message ${at} has the role ${shorten(role)}.`);
    if (role === "system" && at > 0) {
      throw new TypeError("A system prompt comes before all other messages.");
    }
    const text = textOf(content, at);
    if (prefix) {
      if (role !== "assistant" || at < prompt.length - 1 || !prefixed) {
        const message = "prefix is for the last message, where it is the assistant's, of a prompt.";
        throw new DOMException(message, "SyntaxError");
      }
      return { messages, prefix: text };
    }
    messages.push({ role: role as Message["role"], content: text });
  }
  return { messages, prefix: "" };
}

/** @throws TypeError for what has no members. */
export function tableOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  throw new TypeError(`${what} is ${shorten(value)}, no object.`);
}

function user(content: string): Message {
  return { role: "user", content };
}

function textOf(content: unknown, at: number): string {
  if (content === undefined) throw new TypeError(`The message ${at} has no content.`);
  if (!Array.isArray(content)) return String(content);
  return (content as readonly unknown[])
    .map((part) => {
      const { type, value } = tableOf(part, `A part of the message ${at}`);
      if (OTHER_TYPES.includes(type)) {
        throw refused(`The message ${at} has a part of type ${shorten(type)}; only text is read.`);
      }
      if (type !== "text" || typeof value !== "string") {
        throw new TypeError(`The message ${at} has a part ${shorten({ type, value })}.`);
      }
      return value;
    })
    .join("");
}
