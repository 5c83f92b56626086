/** Conversations in this browser, and nowhere else. */

import type { Conversation } from "./conversations.ts";

const NAME = "edgewise-chat";
const TABLE = "conversations";

export interface Database {
  all(): Promise<readonly Conversation[]>;
  save(conversation: Conversation): Promise<void>;
  remove(id: string): Promise<void>;
}

/** The conversations kept here; where the browser keeps nothing, those of this page only. */
export async function openDatabase(name = NAME): Promise<Database> {
  try {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: "id" });
    return kept(await settle(opening));
  } catch {
    return forgetful();
  }
}

function kept(database: IDBDatabase): Database {
  const table = (mode: IDBTransactionMode) => database.transaction(TABLE, mode).objectStore(TABLE);
  return {
    async all() {
      const found: Conversation[] = await settle(table("readonly").getAll());
      return found.sort((a, b) => b.updated - a.updated);
    },
    async save(conversation) {
      await settle(table("readwrite").put(conversation));
    },
    async remove(id) {
      await settle(table("readwrite").delete(id));
    },
  };
}

function forgetful(): Database {
  return { all: async () => [], save: async () => {}, remove: async () => {} };
}

function settle<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
