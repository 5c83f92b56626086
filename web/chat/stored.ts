/** Reading conversations that were kept, by this version of the app or an earlier one, or that a file holds. */

import type { FinishReason } from "../client/types.ts";
import { MOST } from "./bounds.ts";
import { endOf } from "./branches.ts";
import type { AnswerStats, ChatMessage, Conversation, Cut } from "./conversations.ts";
import type { Attachment } from "./files.ts";
import { isRecord, wrong } from "./reading.ts";
import { readSettings } from "./stored-settings.ts";
import { parted } from "./thoughts.ts";
import type { WrittenCall } from "./written.ts";

/**
 * The conversation. What of an answer is no more than said about it (times, counts, calls) is left out where it
 * cannot be.
 *
 * @throws EdgewiseError `chat.conversation`, with the value that is none or is beyond `MOST`.
 */
export function readConversation(value: unknown): Conversation {
  const given = record(value, "A conversation");
  const { updated, leaf } = given;
  const messages = readMessages(given.messages);
  if (typeof updated !== "number" || !within(updated)) throw wrong("updated", updated, "a time");
  const last = messages.find((message) => message.id === leaf) ?? messages.at(-1);
  return {
    id: text(given.id, "id", MOST.id),
    title: text(given.title, "title", MOST.title),
    updated,
    system: text(given.system, "system", MOST.system),
    settings: readSettings(given.settings),
    messages,
    leaf: last ? endOf(messages, last.id) : null,
  };
}

/** The messages of a tree; those of a list, as they were kept once, follow each other. */
function readMessages(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw wrong("messages", value, "a list");
  if (value.length > MOST.messages) {
    throw wrong("messages", value.length, `at most ${MOST.messages}`);
  }
  const known = new Set<string | null>([null]);
  const messages: ChatMessage[] = [];
  for (const [at, item] of value.entries()) {
    const of = `messages[${at}]`;
    const message = readMessage(item, of, messages.at(-1)?.id ?? null);
    if (known.has(message.id)) throw wrong(`${of}.id`, message.id, "an id of its own");
    // Where each follows one that came before it, none follows itself.
    if (!known.has(message.parent)) throw wrong(`${of}.parent`, message.parent, "an earlier one");
    known.add(message.id);
    messages.push(message);
  }
  return messages;
}

function readMessage(value: unknown, of: string, before: string | null): ChatMessage {
  const given = record(value, of);
  const { role, parent = before, thoughtMs } = given;
  if (role !== "user" && role !== "assistant") throw wrong(`${of}.role`, role, "a known one");
  const written = text(given.content, `${of}.content`, MOST.text);
  const thoughts = typeof given.thought === "string" ? given.thought : undefined;
  if (thoughts !== undefined) text(thoughts, `${of}.thought`, MOST.text);
  const { content, thought } =
    role === "user" ? { content: written, thought: "" } : readSaid(written, thoughts);
  const calls = readCalls(given.calls);
  const files = readFiles(given.files, `${of}.files`);
  const stats = readStats(given.stats);
  const cut = readCut(given.cut);
  return {
    id: text(given.id, `${of}.id`, MOST.id),
    parent: parent === null ? null : text(parent, `${of}.parent`, MOST.id),
    role,
    content,
    ...(files.length > 0 ? { files } : {}),
    ...(thought ? { thought } : {}),
    ...(calls.length > 0 ? { calls } : {}),
    ...(stats ? { stats } : {}),
    ...(cut ? { cut } : {}),
    ...(typeof thoughtMs === "number" && within(thoughtMs) ? { thoughtMs } : {}),
  };
}

/** What was said and thought; earlier versions kept both as one text. */
function readSaid(content: string, thought: string | undefined) {
  if (thought !== undefined) return { content, thought };
  const found = parted(content);
  return { content: found.text, thought: found.thought };
}

function readFiles(value: unknown, of: string): readonly Attachment[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw wrong(of, value, "a list");
  if (value.length > MOST.files) throw wrong(of, value.length, `at most ${MOST.files}`);
  return value.map((file, at) => {
    const { name, text: written } = record(file, `${of}[${at}]`);
    return {
      name: text(name, `${of}[${at}].name`, MOST.fileName),
      text: text(written, `${of}[${at}].text`, MOST.fileBytes),
    };
  });
}

function readCalls(value: unknown): readonly WrittenCall[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, MOST.calls).flatMap((call: unknown): WrittenCall[] => {
    if (!isRecord(call)) return [];
    const { index, id, name, arguments: written, complete } = call;
    const known = isCount(index) && isShort(id, MOST.id) && isShort(name, MOST.title);
    if (!known || !isShort(written, MOST.text) || typeof complete !== "boolean") return [];
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
  if (!Object.values(counts).every(isCount)) return null;
  const by = value.by === "host" ? { by: "host" as const } : {};
  return { ...numbers, finish, contextFull, ...by };
}

function readCut(value: unknown): Cut | null {
  if (!isRecord(value)) return null;
  const { tokenizer, tokens } = value;
  if (!isShort(tokenizer, MOST.title) || !Array.isArray(tokens)) return null;
  if (tokens.length > MOST.tokens || !tokens.every(isCount)) return null;
  return { tokenizer, tokens, ...(value.tried === true && { tried: true }) };
}

function isFinish(value: unknown): value is FinishReason {
  return ["stop", "length", "cancelled", "tool_calls"].some((known) => known === value);
}

function areNumbers<K extends string>(values: Record<K, unknown>): values is Record<K, number> {
  return Object.values(values).every((value) => typeof value === "number" && within(value));
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && within(Number(value));
}

function within(value: number): boolean {
  return value >= 0 && value <= MOST.number;
}

function isShort(value: unknown, most: number): value is string {
  return typeof value === "string" && value.length <= most;
}

function text(value: unknown, of: string, most: number): string {
  if (typeof value !== "string") throw wrong(of, value, "a text");
  if (value.length > most) throw wrong(of, value, `at most ${most} characters long`);
  return value;
}

function record(value: unknown, of: string): Readonly<Record<string, unknown>> {
  if (!isRecord(value)) throw wrong(of, value, "an object");
  return value;
}
