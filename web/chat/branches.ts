/**
 * The messages of a conversation are a tree: each says which one it follows. What follows the same
 * one are versions of each other, a question in other words or another answer. A branch is a way
 * from the beginning to a message that nothing follows; one of them is shown.
 *
 * Messages are kept in the order in which they were begun, so every one comes after what it follows.
 */

import type { ChatMessage, Conversation } from "./conversations.ts";

/** From the beginning to a message; empty where there is no such message. */
export function pathTo(
  messages: readonly ChatMessage[],
  id: string | null,
): readonly ChatMessage[] {
  const byId = new Map(messages.map((message) => [message.id, message]));
  const path: ChatMessage[] = [];
  let next = id;
  while (next !== null) {
    const message = byId.get(next);
    if (!message) break;
    path.push(message);
    next = message.parent;
  }
  return path.reverse();
}

/** The branch that is shown; while an answer is being written, that comes at its end. */
export function shownOf(
  { messages, leaf }: Conversation,
  writing?: ChatMessage,
): readonly ChatMessage[] {
  return writing ? [...pathTo(messages, writing.parent), writing] : pathTo(messages, leaf);
}

/** Which version of a message it is, counted from 1, and of how many. */
export interface Version {
  readonly at: number;
  readonly of: number;
}

/** The version of each message of a branch, in its order. */
export function versionsOf(
  messages: readonly ChatMessage[],
  branch: readonly ChatMessage[],
): readonly Version[] {
  const known = new Map<string | null, string[]>();
  for (const { id, parent } of messages) {
    const versions = known.get(parent);
    if (versions) versions.push(id);
    else known.set(parent, [id]);
  }
  return branch.map(({ id, parent }) => {
    const versions = known.get(parent) ?? [];
    const found = versions.indexOf(id);
    // What is being written is among them once there is something of it.
    return found < 0
      ? { at: versions.length + 1, of: versions.length + 1 }
      : { at: found + 1, of: versions.length };
  });
}

/**
 * With the version shown that is so many after that of a message, or before it where `step` is
 * negative, and what was said last after that; the versions go round. As it was where there is no
 * such message.
 */
export function turnTo(conversation: Conversation, id: string, step: number): Conversation {
  const { messages } = conversation;
  const message = messages.find((one) => one.id === id);
  const versions = messages.filter(({ parent }) => parent === message?.parent);
  const chosen = versions.at((versions.findIndex((one) => one.id === id) + step) % versions.length);
  return message && chosen ? { ...conversation, leaf: endOf(messages, chosen.id) } : conversation;
}

/** The last message of the newest branch through a message. */
export function endOf(messages: readonly ChatMessage[], id: string): string {
  const next = new Map(messages.map((message) => [message.parent, message.id]));
  let end = id;
  for (let at: string | undefined = id; at !== undefined; at = next.get(at)) end = at;
  return end;
}
