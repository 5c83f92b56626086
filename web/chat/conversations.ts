/** What a conversation is, and how it changes: plain data and functions of it. */

import type { ChatOptions, FinishReason, Message } from "../client/types.ts";
import { newId } from "./ids.ts";

/** What an answer took, for the line under it. */
export interface AnswerStats {
  readonly ttftMs: number;
  readonly tokensPerSecond: number;
  readonly tokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly finish: FinishReason;
}

export interface ChatMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: string;
  /** Of an answer that ended; an answer without was cut off by an error or by closing the page. */
  readonly stats?: AnswerStats;
  /** Milliseconds that a thought before the answer took. */
  readonly thoughtMs?: number;
}

/** Sampling settings of a conversation; what is left out is the model's own default. */
export type Settings = Pick<
  ChatOptions,
  "temperature" | "topP" | "topK" | "minP" | "maxTokens" | "repetitionPenalty" | "variables"
> & { readonly seed?: number };

export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Milliseconds since 1970 of the last question or answer. */
  readonly updated: number;
  readonly system: string;
  readonly settings: Settings;
  readonly messages: readonly ChatMessage[];
}

const TITLE_LENGTH = 48;
export const UNTITLED = "New conversation";

export function newConversation(now = Date.now()): Conversation {
  return { id: newId(), title: UNTITLED, updated: now, system: "", settings: {}, messages: [] };
}

/** The beginning of a text, cut at a word. */
export function titleOf(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  if (line === "") return UNTITLED;
  const characters = [...line];
  if (characters.length <= TITLE_LENGTH) return line;
  const cut = characters.slice(0, TITLE_LENGTH).join("");
  const space = cut.lastIndexOf(" ");
  return `${space > TITLE_LENGTH / 2 ? cut.slice(0, space) : cut}…`;
}

/** With a question of the person at the end; the first one names a conversation without a title. */
export function ask(conversation: Conversation, content: string, now = Date.now()): Conversation {
  const { messages, title } = conversation;
  return {
    ...conversation,
    title: messages.length === 0 && title === UNTITLED ? titleOf(content) : title,
    updated: now,
    messages: [...messages, { id: newId(), role: "user", content }],
  };
}

/** With an answer at the end, or with it replaced where it is there already. */
export function answer(
  conversation: Conversation,
  message: ChatMessage,
  now = Date.now(),
): Conversation {
  const others = conversation.messages.filter(({ id }) => id !== message.id);
  return { ...conversation, updated: now, messages: [...others, message] };
}

/** Without a message and everything after it. */
export function truncated(conversation: Conversation, id: string): Conversation {
  const index = conversation.messages.findIndex((message) => message.id === id);
  if (index < 0) return conversation;
  return { ...conversation, messages: conversation.messages.slice(0, index) };
}

/** With a question asked in other words and nothing after it; a title it gave changes with it. */
export function edit(
  conversation: Conversation,
  id: string,
  content: string,
  now = Date.now(),
): Conversation {
  const kept = truncated(conversation, id);
  const replaced = conversation.messages[kept.messages.length];
  const named = replaced !== undefined && conversation.title === titleOf(replaced.content);
  const title = named && kept.messages.length === 0 ? UNTITLED : conversation.title;
  return ask({ ...kept, title }, content, now);
}

/** Up to the last question, so that it can be answered anew; null where there is none. */
export function unanswered(conversation: Conversation): Conversation | null {
  const index = conversation.messages.findLastIndex(({ role }) => role === "user");
  if (index < 0) return null;
  return { ...conversation, messages: conversation.messages.slice(0, index + 1) };
}

/** What the model is given. */
export function prompt({ system, messages }: Conversation): Message[] {
  const turns = messages
    .filter(({ content }) => content !== "")
    .map(({ role, content }) => ({ role, content }));
  return system.trim() === "" ? turns : [{ role: "system", content: system }, ...turns];
}
