/** Conversations in which something was said. */

import { type Book, listed } from "./book.ts";
import type { ChatMessage, Conversation } from "./conversations.ts";

/** A text around what was found in it. */
export interface Piece {
  readonly before: string;
  readonly match: string;
  readonly after: string;
}

export interface Hit {
  /** Of the conversation. */
  readonly id: string;
  readonly title: string;
  /** The message that says it, its id; null where only the title does. */
  readonly message: string | null;
  readonly piece: Piece;
}

export interface Found {
  /** One a conversation, the newest first. */
  readonly hits: readonly Hit[];
  /** Whether there are more of them. */
  readonly more: boolean;
}

/** Hits that are shown at most. */
const MOST_HITS = 50;
/** Characters looked through before others get their turn: a few milliseconds of them. */
const TURN = 1_000_000;
/** Characters that are shown around a match, and of one. */
const BEFORE = 32;
const AFTER = 80;

/**
 * Look for a text in titles and messages, whatever its case and the space between its words.
 *
 * @param pause lets others have their turn; it throws where nobody wants to know any more.
 */
export async function search(
  book: Book,
  query: string,
  pause: () => Promise<void>,
): Promise<Found> {
  const pattern = patternOf(query);
  const hits: Hit[] = [];
  if (!pattern) return { hits, more: false };
  let read = 0;
  for (const conversation of listed(book)) {
    const hit = hitOf(conversation, pattern);
    read += lengthOf(conversation);
    if (hit && hits.length === MOST_HITS) return { hits, more: true };
    if (hit) hits.push(hit);
    if (read < TURN) continue;
    read = 0;
    await pause();
  }
  return { hits, more: false };
}

function patternOf(query: string): RegExp | null {
  const words = query.trim().split(/\s+/).filter(Boolean);
  const escaped = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return words.length === 0 ? null : new RegExp(escaped.join("\\s+"), "iu");
}

function hitOf({ id, title, messages }: Conversation, pattern: RegExp): Hit | null {
  for (const message of messages) {
    for (const text of textsOf(message)) {
      const piece = pieceOf(text, pattern);
      if (piece) return { id, title, message: message.id, piece };
    }
  }
  const piece = pieceOf(title, pattern);
  return piece && { id, title, message: null, piece };
}

function textsOf({ content, files = [] }: ChatMessage): readonly string[] {
  return [content, ...files.flatMap(({ name, text }) => [name, text])];
}

function lengthOf({ messages }: Conversation): number {
  return messages.reduce(
    (sum, message) => textsOf(message).reduce((all, text) => all + text.length, sum),
    0,
  );
}

function pieceOf(text: string, pattern: RegExp): Piece | null {
  const found = pattern.exec(text);
  if (!found) return null;
  const [match] = found;
  const start = Math.max(found.index - BEFORE, 0);
  const end = found.index + match.length;
  const before = line(text.slice(start, found.index));
  const after = line(text.slice(end, end + AFTER));
  return {
    before: start > 0 ? `…${before}` : before,
    match: line(match),
    after: end + AFTER < text.length ? `${after}…` : after,
  };
}

/** In one line, without halves of characters where it was cut. */
function line(text: string): string {
  return text.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "").replace(/\s+/g, " ");
}
