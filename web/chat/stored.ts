/** Reading conversations that were kept, by this version of the app or an earlier one. */

import type { FinishReason } from "../client/types.ts";
import { endOf } from "./branches.ts";
import type { AnswerStats, ChatMessage, Conversation, Cut, Settings } from "./conversations.ts";
import { parted } from "./thoughts.ts";
import type { WrittenCall } from "./written.ts";

/** The conversation; null for what is none. */
export function readConversation(value: unknown): Conversation | null {
  if (!isRecord(value)) return null;
  const { id, title, updated, system, settings, leaf } = value;
  if (typeof id !== "string" || typeof title !== "string" || typeof system !== "string")
    return null;
  const messages = readMessages(value.messages);
  if (typeof updated !== "number" || !isRecord(settings) || !messages) return null;
  const last = messages.find((message) => message.id === leaf) ?? messages.at(-1);
  return {
    id,
    title,
    updated,
    system,
    settings: settings as Settings, // the engine checks every one
    messages,
    leaf: last ? endOf(messages, last.id) : null,
  };
}

/** The messages of a tree; those of a list, as they were kept once, follow each other. */
function readMessages(value: unknown): readonly ChatMessage[] | null {
  if (!Array.isArray(value)) return null;
  const known = new Set<string | null>([null]);
  const messages: ChatMessage[] = [];
  for (const item of value) {
    const message = readMessage(item, messages.at(-1)?.id ?? null);
    // Where each follows one that came before it, none follows itself.
    if (!message || known.has(message.id) || !known.has(message.parent)) return null;
    known.add(message.id);
    messages.push(message);
  }
  return messages;
}

function readMessage(value: unknown, before: string | null): ChatMessage | null {
  if (!isRecord(value)) return null;
  const { id, parent = before, role, thoughtMs } = value;
  if (typeof id !== "string" || typeof value.content !== "string") return null;
  if (role !== "user" && role !== "assistant") return null;
  if (parent !== null && typeof parent !== "string") return null;
  const { content, thought } =
    role === "user" ? said(value.content) : readSaid(value.content, value);
  const calls = readCalls(value.calls);
  const stats = readStats(value.stats);
  const cut = readCut(value.cut);
  return {
    id,
    parent,
    role,
    content,
    ...(thought ? { thought } : {}),
    ...(calls.length > 0 ? { calls } : {}),
    ...(stats ? { stats } : {}),
    ...(cut ? { cut } : {}),
    ...(typeof thoughtMs === "number" && thoughtMs >= 0 ? { thoughtMs } : {}),
  };
}

interface Said {
  readonly content: string;
  readonly thought: string;
}

function said(content: string, thought = ""): Said {
  return { content, thought };
}

/** What was said and thought; earlier versions kept both as one text. */
function readSaid(content: string, { thought }: Readonly<Record<string, unknown>>): Said {
  if (typeof thought === "string") return said(content, thought);
  const found = parted(content);
  return said(found.text, found.thought);
}

function readCalls(value: unknown): readonly WrittenCall[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((call: unknown): WrittenCall[] => {
    if (!isRecord(call)) return [];
    const { index, id, name, arguments: written, complete } = call;
    const known = typeof index === "number" && typeof id === "string" && typeof name === "string";
    if (!known || typeof written !== "string" || typeof complete !== "boolean") return [];
    return [{ index, id, name, arguments: written, complete }];
  });
}

function readStats(value: unknown): AnswerStats | null {
  if (!isRecord(value)) return null;
  const { ttftMs, tokensPerSecond, tokens, promptTokens, cachedTokens, finish } = value;
  // Earlier versions did not note these.
  const { contextFull = false, context = 0, droppedTurns = 0 } = value;
  const counts = { tokens, promptTokens, cachedTokens, context, droppedTurns };
  const numbers = { ttftMs, tokensPerSecond, ...counts };
  if (!areNumbers(numbers) || !isFinish(finish) || typeof contextFull !== "boolean") return null;
  const by = value.by === "host" ? { by: "host" as const } : {};
  return { ...numbers, finish, contextFull, ...by };
}

function readCut(value: unknown): Cut | null {
  if (!isRecord(value)) return null;
  const { tokenizer, tokens } = value;
  if (typeof tokenizer !== "string" || !Array.isArray(tokens)) return null;
  return tokens.every(Number.isSafeInteger) ? { tokenizer, tokens } : null;
}

function isFinish(value: unknown): value is FinishReason {
  return ["stop", "length", "cancelled", "tool_calls"].some((known) => known === value);
}

function areNumbers<K extends string>(values: Record<K, unknown>): values is Record<K, number> {
  return Object.values(values).every(Number.isFinite);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
