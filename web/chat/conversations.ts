/** What a conversation is, and how it changes: plain data and functions of it. */

import type { ChatOptions, FinishReason, Message } from "../client/types.ts";
import { pathTo, shownOf } from "./branches.ts";
import { type Attachment, withFiles } from "./files.ts";
import { newId } from "./ids.ts";
import type { WrittenCall } from "./written.ts";

/** What an answer took, for the line under it, and how full the context was. */
export interface AnswerStats {
  readonly ttftMs: number;
  readonly tokensPerSecond: number;
  readonly tokens: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly finish: FinishReason;
  /** Whether the context ended it. */
  readonly contextFull: boolean;
  /** Most tokens of prompt and answer that the model could hold; 0 where that was not noted. */
  readonly context: number;
  /** Turns of the conversation, the oldest, that the model was not given. */
  readonly droppedTurns: number;
  /** Who answered; this device where nothing is said. */
  readonly by?: "host";
}

/** What an answer goes on from: its tokens, and the tokenizer that they are of. */
export interface Cut {
  readonly tokenizer: string;
  readonly tokens: readonly number[];
  /** It went on from here by itself and came no further: next time a person decides. */
  readonly tried?: true;
}

export interface ChatMessage {
  readonly id: string;
  /** The message that it follows; null for what a conversation begins with. */
  readonly parent: string | null;
  readonly role: "user" | "assistant";
  readonly content: string;
  /** What a question is asked about. */
  readonly files?: readonly Attachment[];
  /** Of an answer that ended; an answer without was cut off by an error or by closing the page. */
  readonly stats?: AnswerStats;
  /** What was thought before the answer. */
  readonly thought?: string;
  /** Calls of tools in the answer. */
  readonly calls?: readonly WrittenCall[];
  /** Milliseconds that a thought before the answer took. */
  readonly thoughtMs?: number;
  /** Of an answer that the length limit cut off, or closing the page. */
  readonly cut?: Cut;
}

/** Sampling settings of a conversation; what is left out is the model's own default. */
export type Settings = Pick<
  ChatOptions,
  | "temperature"
  | "topP"
  | "topK"
  | "minP"
  | "maxTokens"
  | "repetitionPenalty"
  | "tools"
  | "variables"
> & { readonly seed?: number };

export interface Conversation {
  readonly id: string;
  readonly title: string;
  /** Milliseconds since 1970 of the last question or answer. */
  readonly updated: number;
  readonly system: string;
  readonly settings: Settings;
  /** A tree, see `branches.ts`: what was asked in other words or answered anew stays. */
  readonly messages: readonly ChatMessage[];
  /** The last message of the branch that is shown; null where nothing was said. */
  readonly leaf: string | null;
}

const TITLE_LENGTH = 48;
export const UNTITLED = "New conversation";

export function newConversation(now = Date.now()): Conversation {
  const nothing = { system: "", settings: {}, messages: [], leaf: null };
  return { id: newId(), title: UNTITLED, updated: now, ...nothing };
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
export function ask(
  conversation: Conversation,
  content: string,
  now = Date.now(),
  files: readonly Attachment[] = [],
): Conversation {
  const { leaf, messages, title } = conversation;
  const named = messages.length === 0 && title === UNTITLED;
  return {
    ...withQuestion(conversation, leaf, { content, files }, now),
    title: named ? titleOf(content || (files[0]?.name ?? "")) : title,
  };
}

/**
 * With a question in other words beside it, and that one shown; a title it gave changes with it.
 * As it was where there is no such question.
 */
export function edit(
  conversation: Conversation,
  id: string,
  content: string,
  now = Date.now(),
): Conversation {
  const before = conversation.messages.find((message) => message.id === id);
  if (!before) return conversation;
  const named = before.parent === null && conversation.title === titleOf(before.content);
  return {
    ...withQuestion(conversation, before.parent, { content, files: before.files ?? [] }, now),
    title: named ? titleOf(content) : conversation.title,
  };
}

function withQuestion(
  conversation: Conversation,
  parent: string | null,
  asked: { readonly content: string; readonly files: readonly Attachment[] },
  now: number,
): Conversation {
  const { content, files } = asked;
  const about = files.length > 0 ? { files } : {};
  const question: ChatMessage = { id: newId(), parent, role: "user", content, ...about };
  const messages = [...conversation.messages, question];
  return { ...conversation, updated: now, messages, leaf: question.id };
}

/** With an answer shown at the end, or with it replaced where it is there already. */
export function answer(
  conversation: Conversation,
  message: ChatMessage,
  now = Date.now(),
): Conversation {
  const { messages } = conversation;
  const known = messages.some(({ id }) => id === message.id);
  return {
    ...conversation,
    updated: now,
    messages: known
      ? messages.map((one) => (one.id === message.id ? message : one))
      : [...messages, message],
    leaf: message.id,
  };
}

/** The answer to be written to the last question shown; null where there is none. */
export function blankAnswer(conversation: Conversation): ChatMessage | null {
  const question = shownOf(conversation).findLast(({ role }) => role === "user");
  return question ? { id: newId(), parent: question.id, role: "assistant", content: "" } : null;
}

/** What the model is given to answer, and which of the oldest turns it is not given. */
export interface Asked {
  readonly messages: readonly Message[];
  readonly droppedTurns: number;
}

/**
 * What an answer follows, for a model with so large a context: without the turns that did not fit
 * before. What is left begins as it did then, so that the model need not read it again.
 */
export function prompt(conversation: Conversation, written: ChatMessage, context: number): Asked {
  const { messages, system } = conversation;
  const path = pathTo(messages, written.parent);
  const droppedTurns = forgotten([...path, written], context);
  const turns = path
    .slice(turnStart(path, droppedTurns))
    .map(messageOf)
    .filter(({ content, tool_calls }) => content !== "" || tool_calls !== undefined);
  const first = system.trim() === "" ? [] : [{ role: "system", content: system }];
  return { messages: [...first, ...turns], droppedTurns };
}

/** A message as the model is given it: without calls that were cut off. */
function messageOf({ role, content, files, thought, calls = [] }: ChatMessage): Message {
  const called = calls.filter(({ complete }) => complete);
  const tool_calls = called.map(({ id, name, arguments: given }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: given },
  }));
  return {
    role,
    content: withFiles(content, files),
    ...(thought ? { reasoning_content: thought } : {}),
    ...(tool_calls.length > 0 ? { tool_calls } : {}),
  };
}

/**
 * Turns of a branch, its oldest, that were left out when it was last read, by a model with so large a
 * context; whatever its context was where that is null.
 */
export function forgotten(path: readonly ChatMessage[], context: number | null): number {
  const stats = path.findLast((message) => message.stats)?.stats;
  return stats && stats.context === (context ?? stats.context) ? stats.droppedTurns : 0;
}

/** Tokens that a branch came to when it was last read; 0 where it never was. */
export function tokensOf(path: readonly ChatMessage[]): number {
  const stats = path.findLast((message) => message.stats)?.stats;
  return stats ? stats.promptTokens + stats.tokens : 0;
}

/** Where in a branch a turn begins, counted from 0: a question and all up to the next one. */
export function turnStart(path: readonly ChatMessage[], turn: number): number {
  const questions = path.flatMap(({ role }, i) => (role === "user" ? [i] : []));
  return turn === 0 ? 0 : (questions[turn] ?? path.length);
}
