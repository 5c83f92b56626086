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
      return found.flatMap(readKept).sort((a, b) => b.updated - a.updated);
    },
    async save(conversation) {
      const kept = table("readwrite");
      const put = settle(kept.put(conversation));
      // At once: a page that is being closed does not live to see that nothing follows.
      kept.transaction.commit?.();
      await put;
    },
    async remove(id) {
      await settle(table("readwrite").delete(id));
    },
  };
}

/** What is none is left out; a setting that cannot be any more does not cost the conversation. */
function readKept(value: unknown): readonly Conversation[] {
  try {
    return [readConversation(value)];
  } catch {
    if (typeof value !== "object") return [];
  }
  try {
    return [readConversation({ ...value, settings: {} })];
  } catch {
    return [];
  }
}

function settle<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
