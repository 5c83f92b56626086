/** What a conversation is, and how it changes: plain data and functions of it. */

import type { GenerateOptions, Message } from "../client/types.ts";

/** What an answer took, for the line under it. */
export interface AnswerStats {
  readonly ttftMs: number;
  readonly tokensPerSecond: number;
  readonly tokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly finish: "stop" | "length" | "cancelled";
}

export interface ChatMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly stats?: AnswerStats;
}

/** Sampling settings of a conversation; what is left out is the model's own default. */
export type Settings = Pick<
  GenerateOptions,
  "temperature" | "topP" | "topK" | "minP" | "maxTokens" | "repetitionPenalty"
> & { readonly seed?: number };

export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Milliseconds since 1970 of the last change. */
  readonly updated: number;
  readonly system: string;
  readonly settings: Settings;
  readonly messages: readonly ChatMessage[];
}

const TITLE_LENGTH = 48;
export const UNTITLED = "New conversation";

export function newConversation(now = Date.now()): Conversation {
  return {
    id: crypto.randomUUID(),
    title: UNTITLED,
    updated: now,
    system: "",
    settings: {},
    messages: [],
  };
}

/** The beginning of a text, cut at a word. */
export function titleOf(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  if (line === "") return UNTITLED;
  if (line.length <= TITLE_LENGTH) return line;
  const cut = line.slice(0, TITLE_LENGTH);
  const space = cut.lastIndexOf(" ");
  return `${space > TITLE_LENGTH / 2 ? cut.slice(0, space) : cut}…`;
}

/** With a question of the person at the end; the first one names the conversation. */
export function ask(conversation: Conversation, content: string, now = Date.now()): Conversation {
  const { messages, title } = conversation;
  return {
    ...conversation,
    title: messages.length === 0 && title === UNTITLED ? titleOf(content) : title,
    updated: now,
    messages: [...messages, { id: crypto.randomUUID(), role: "user", content }],
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

/** Without a message and everything after it: what is left when it is edited or made anew. */
export function before(conversation: Conversation, id: string): Conversation {
  const index = conversation.messages.findIndex((message) => message.id === id);
  if (index < 0) return conversation;
  return { ...conversation, messages: conversation.messages.slice(0, index) };
}

/** What the model is given. */
export function prompt({ system, messages }: Conversation): Message[] {
  const turns = messages
    .filter(({ content }) => content !== "")
    .map(({ role, content }) => ({ role, content }));
  return system.trim() === "" ? turns : [{ role: "system", content: system }, ...turns];
}
