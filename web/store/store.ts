/** Where weights and other files of bundles are kept, by their sha256, so that models share them. */

import { MemoryStore } from "./memory.ts";
import { openOpfs } from "./opfs.ts";

export interface StoredBlob {
  readonly sha256: string;
  readonly bytes: number;
}

/**
 * Keeps contents by their sha256. It does not verify them: who reads a blob compares it (`download.ts`).
 *
 * Writing a blob that does not fit rejects with a `QuotaExceededError`, writing one that somebody else writes
 * just now with a `NoModificationAllowedError`; neither leaves anything behind.
 */
export interface Store {
  readonly kind: "opfs" | "indexeddb" | "memory";
  has(sha256: string): Promise<boolean>;
  read(sha256: string): Promise<Uint8Array<ArrayBuffer> | null>;
  /** Keep a blob; what had arrived of it is forgotten. */
  write(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void>;
  /** What of a blob had arrived when its download was interrupted. */
  readPartial(sha256: string): Promise<Uint8Array<ArrayBuffer> | null>;
  writePartial(sha256: string, data: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Forget a blob and what had arrived of it. */
  remove(sha256: string): Promise<void>;
  list(): Promise<readonly StoredBlob[]>;
  /** Blobs of which a part has arrived, and how many bytes that is. */
  listPartial(): Promise<readonly StoredBlob[]>;
  /** A small named value: the last manifest of a URL, a choice made for an adapter. */
  note(key: string): Promise<Uint8Array<ArrayBuffer> | null>;
  /** Keep a note if there is room for it; otherwise what there was may stay. */
  setNote(key: string, data: Uint8Array): Promise<void>;
  notes(): Promise<readonly string[]>;
  removeNote(key: string): Promise<void>;
  /** Remove what was not written to its end; for who knows that nobody else writes just now. */
  sweep?(): Promise<void>;
  /** Forget everything, notes too. */
  clear(): Promise<void>;
}

/** Bytes this origin uses and may use, where the browser tells. */
export async function usage(): Promise<{ readonly usage: number; readonly quota: number } | null> {
  const estimate = await globalThis.navigator?.storage?.estimate?.().catch(() => null);
  if (!estimate) return null;
  return { usage: estimate.usage ?? 0, quota: estimate.quota ?? 0 };
}

/** Loaded where there are no files: most browsers have them. */
async function openIndexedDb(name?: string): Promise<Store | null> {
  const { openIndexedDb: open } = await import("./indexeddb.ts");
  return open(name);
}

/** The best store of this browser: files of the origin (OPFS), else IndexedDB, else nothing is kept. */
export async function openStore(): Promise<Store> {
  return (await openOpfs()) ?? (await openIndexedDb()) ?? new MemoryStore();
}

const PAGES = "edgewise-pages";

/** Where KV pages are kept, beside that: nothing of them goes for a model, nor the other way round. Null for nowhere. */
export async function openPagesStore(): Promise<Store | null> {
  return (await openOpfs(PAGES)) ?? (await openIndexedDb(PAGES));
}

/** Remove all of blobs that are not to be kept, begun ones too; how many bytes that freed. */
export async function evict(store: Store, keep: ReadonlySet<string>): Promise<number> {
  let freed = 0;
  for (const { sha256, bytes } of [...(await store.list()), ...(await store.listPartial())]) {
    if (keep.has(sha256)) continue;
    const removed = await store.remove(sha256).then(
      () => true,
      () => false, // another tab has it open: it goes next time
    );
    if (removed) freed += bytes;
  }
  return freed;
}
