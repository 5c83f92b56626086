/** Conversations in this browser, and nowhere else. */

import type { Conversation } from "./conversations.ts";
import { readConversation } from "./stored.ts";

const NAME = "edgewise-chat";
const TABLE = "conversations";

export interface Database {
  /** All that is kept, the last changed first; what is no conversation is left out. */
  all(): Promise<readonly Conversation[]>;
  save(conversation: Conversation): Promise<void>;
  remove(id: string): Promise<void>;
}

/**
 * The conversations kept here.
 *
 * @throws DOMException where the browser keeps nothing for this page.
 */
export async function openDatabase(name = NAME): Promise<Database> {
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: "id" });
  const database = await settle(opening);
  const table = (mode: IDBTransactionMode) => database.transaction(TABLE, mode).objectStore(TABLE);
  return {
    async all() {
      const found: unknown[] = await settle(table("readonly").getAll());
      const read = found.map(readConversation).filter((one) => one !== null);
      return read.sort((a, b) => b.updated - a.updated);
    },
    async save(conversation) {
      await settle(table("readwrite").put(conversation));
    },
    async remove(id) {
      await settle(table("readwrite").delete(id));
    },
  };
}

function settle<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
