/** All conversations and which one is shown: plain data and functions of it. */

import { type Conversation, newConversation } from "./conversations.ts";

/** The one shown is among `all`, which has no order; `listed` has. */
export interface Book {
  readonly all: readonly Conversation[];
  readonly current: string;
}

/** A book with a new conversation shown before those that were kept. */
export function openBook(kept: readonly Conversation[] = [], now = Date.now()): Book {
  const fresh = newConversation(now);
  return { all: [fresh, ...kept], current: fresh.id };
}

/** With what was kept added; of what is there already, whichever changed last. */
export function merge(book: Book, kept: readonly Conversation[]): Book {
  const all = new Map(book.all.map((one) => [one.id, one]));
  for (const one of kept) {
    const known = all.get(one.id);
    if (!known || known.updated < one.updated) all.set(one.id, one);
  }
  return { ...book, all: [...all.values()] };
}

export function currentOf(book: Book): Conversation {
  const found = book.all.find(({ id }) => id === book.current);
  // A book is only made by these functions, which keep the one shown.
  return found ?? newConversation();
}

/** Those in which something was said, the newest first. */
export function listed(book: Book): readonly Conversation[] {
  return book.all
    .filter(({ messages }) => messages.length > 0)
    .sort((a, b) => b.updated - a.updated);
}

/** With a new conversation shown; ones in which nothing was said are dropped. */
export function begin(book: Book, now = Date.now()): Book {
  return openBook(listed(book), now);
}

/** With another one shown, as it was where there is no such conversation. */
export function pick(book: Book, id: string): Book {
  return book.all.some((one) => one.id === id) ? { ...book, current: id } : book;
}

/** With one conversation changed; as it was where that is gone. */
export function change(
  book: Book,
  id: string,
  how: (conversation: Conversation) => Conversation,
): Book {
  if (!book.all.some((one) => one.id === id)) return book;
  return { ...book, all: book.all.map((one) => (one.id === id ? how(one) : one)) };
}

/** Without a conversation; where it is the one shown, with a new one shown. */
export function remove(book: Book, id: string, now = Date.now()): Book {
  const all = book.all.filter((one) => one.id !== id);
  return book.current === id ? openBook(all, now) : { ...book, all };
}
