/** Blobs in IndexedDB, for browsers without a file system of the origin. */

import { unlessRefused } from "./dom-errors.ts";
import type { Store, StoredBlob } from "./store.ts";

const DATABASE = "edgewise";
const VERSION = 2;
/** `sizes` has the bytes of every blob and partial by `table sha256`: nothing is read to list them. */
const TABLES = ["blobs", "partial", "notes", "sizes"] as const;
type Table = (typeof TABLES)[number];
type Sized = "blobs" | "partial";
type Bytes = Uint8Array<ArrayBuffer>;

/** A store in IndexedDB, or null where that cannot be used either. */
export async function openIndexedDb(name = DATABASE): Promise<Store | null> {
  try {
    const opening = indexedDB.open(name, VERSION);
    opening.onupgradeneeded = () => {
      const { result } = opening;
      for (const table of [...result.objectStoreNames]) result.deleteObjectStore(table);
      for (const table of TABLES) result.createObjectStore(table);
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

  async has(sha256: string): Promise<boolean> {
    return (await settle(this.table("blobs").count(sha256))) > 0;
  }

  read(sha256: string): Promise<Bytes | null> {
    return this.get("blobs", sha256);
  }

  write(sha256: string, data: Bytes): Promise<void> {
    return this.change(["blobs", "partial", "sizes"], (transaction) => {
      forget(transaction, "partial", sha256);
      keep(transaction, "blobs", sha256, data);
    });
  }

  readPartial(sha256: string): Promise<Bytes | null> {
    return this.get("partial", sha256);
  }

  writePartial(sha256: string, data: Bytes): Promise<void> {
    return this.change(["partial", "sizes"], (transaction) =>
      keep(transaction, "partial", sha256, data),
    );
  }

  remove(sha256: string): Promise<void> {
    return this.change(["blobs", "partial", "sizes"], (transaction) => {
      forget(transaction, "blobs", sha256);
      forget(transaction, "partial", sha256);
    });
  }

  list(): Promise<readonly StoredBlob[]> {
    return this.sizes("blobs");
  }

  listPartial(): Promise<readonly StoredBlob[]> {
    return this.sizes("partial");
  }

  note(key: string): Promise<Bytes | null> {
    return this.get("notes", key);
  }

  setNote(key: string, data: Uint8Array): Promise<void> {
    const writing = this.change(["notes"], (transaction) =>
      transaction.objectStore("notes").put(data.slice().buffer, key),
    );
    return unlessRefused(writing);
  }

  async notes(): Promise<readonly string[]> {
    return (await settle(this.table("notes").getAllKeys())).map(String);
  }

  removeNote(key: string): Promise<void> {
    return this.change(["notes"], (transaction) => transaction.objectStore("notes").delete(key));
  }

  clear(): Promise<void> {
    return this.change(TABLES, (transaction) => {
      for (const table of TABLES) transaction.objectStore(table).clear();
    });
  }

  private table(name: Table): IDBObjectStore {
    return this.database.transaction(name).objectStore(name);
  }

  private async get(table: Table, key: string): Promise<Bytes | null> {
    const found: unknown = await settle(this.table(table).get(key));
    return found instanceof ArrayBuffer ? new Uint8Array(found) : null;
  }

  private async sizes(table: Sized): Promise<readonly StoredBlob[]> {
    const sizes = this.table("sizes"); // one transaction: keys and values agree
    const [keys, values] = await Promise.all([settle(sizes.getAllKeys()), settle(sizes.getAll())]);
    return keys.flatMap((key, i) => {
      const [of, sha256] = String(key).split(" ");
      return of === table && sha256 ? [{ sha256, bytes: Number(values[i]) }] : [];
    });
  }

  /**
   * A change counts once its transaction is complete: only then is there room for it. One that fails is
   * undone as a whole; its error is known when it aborts, not before.
   */
  private change(
    tables: readonly Table[],
    act: (transaction: IDBTransaction) => void,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(tables, "readwrite");
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
      act(transaction);
    });
  }
}

function keep(transaction: IDBTransaction, table: Sized, sha256: string, data: Bytes): void {
  // A view would be stored with all of the buffer it looks at.
  const whole = data.length === data.buffer.byteLength ? data.buffer : data.slice().buffer;
  transaction.objectStore(table).put(whole, sha256);
  transaction.objectStore("sizes").put(data.length, `${table} ${sha256}`);
}

function forget(transaction: IDBTransaction, table: Sized, sha256: string): void {
  transaction.objectStore(table).delete(sha256);
  transaction.objectStore("sizes").delete(`${table} ${sha256}`);
}
