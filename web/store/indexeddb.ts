/** Blobs in IndexedDB, for browsers without a file system of the origin. */

import type { Store, StoredBlob } from "./store.ts";

const DATABASE = "edgewise";
const VERSION = 1;
const TABLES = ["blobs", "partial", "notes"] as const;
type Table = (typeof TABLES)[number];

/** A store in IndexedDB, or null where that cannot be used either. */
export async function openIndexedDb(name = DATABASE): Promise<Store | null> {
  try {
    const opening = indexedDB.open(name, VERSION);
    opening.onupgradeneeded = () => {
      for (const table of TABLES) {
        if (!opening.result.objectStoreNames.contains(table)) {
          opening.result.createObjectStore(table);
        }
      }
    };
    const database = await settle(opening);
    // Another tab may want to change the tables: it must not wait for this one.
    database.onversionchange = () => database.close();
    return new DatabaseStore(database);
  } catch {
    return null;
  }
}

function settle<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

class DatabaseStore implements Store {
  readonly kind = "indexeddb";
  private readonly database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.database = database;
  }

  read(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.get("blobs", sha256);
  }

  async write(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.put("blobs", sha256, data);
    await this.delete("partial", sha256);
  }

  readPartial(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.get("partial", sha256);
  }

  writePartial(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void> {
    return this.put("partial", sha256, data);
  }

  async remove(sha256: string): Promise<void> {
    await this.delete("blobs", sha256);
    await this.delete("partial", sha256);
  }

  async list(): Promise<readonly StoredBlob[]> {
    const table = this.database.transaction("blobs").objectStore("blobs");
    const found: StoredBlob[] = [];
    // One at a time: all values together would be all weights in memory.
    for (const key of await settle(table.getAllKeys())) {
      const data = await this.get("blobs", String(key));
      if (data) found.push({ sha256: String(key), bytes: data.length });
    }
    return found;
  }

  note(key: string): Promise<Uint8Array<ArrayBuffer> | null> {
    return this.get("notes", key);
  }

  setNote(key: string, data: Uint8Array): Promise<void> {
    return this.put("notes", key, data);
  }

  async notes(): Promise<readonly string[]> {
    const table = this.database.transaction("notes").objectStore("notes");
    return (await settle(table.getAllKeys())).map(String);
  }

  removeNote(key: string): Promise<void> {
    return this.delete("notes", key);
  }

  private async get(table: Table, key: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const found: unknown = await settle(
      this.database.transaction(table).objectStore(table).get(key),
    );
    return found instanceof ArrayBuffer ? new Uint8Array(found) : null;
  }

  private put(table: Table, key: string, data: Uint8Array): Promise<void> {
    return this.change(table, (store) => store.put(data.slice().buffer, key));
  }

  private delete(table: Table, key: string): Promise<void> {
    return this.change(table, (store) => store.delete(key));
  }

  /** A change counts once its transaction is complete: only then is there room for it. */
  private change(table: Table, act: (store: IDBObjectStore) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(table, "readwrite");
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      transaction.onerror = () => reject(transaction.error);
      act(transaction.objectStore(table));
    });
  }
}
