/** Which models this browser keeps, read from the engine's store. */

import { parseManifest } from "../format/manifest-reader.ts";
import { evict, openStore, type Store, usage } from "../store/store.ts";

export interface KeptModel {
  readonly name: string;
  readonly url: string;
  /** Bytes of it that are here; what models share counts for each. */
  readonly bytes: number;
}

export interface Kept {
  readonly models: readonly KeptModel[];
  readonly usage: number;
  readonly quota: number;
}

/** What `BundleFiles.open` names the manifests it keeps. */
const MANIFEST = "manifest ";

/** Models with weights on this device. */
export async function keptModels(): Promise<Kept> {
  const store = await openStore();
  const sizes = new Map((await store.list()).map(({ sha256, bytes }) => [sha256, bytes]));
  const models: KeptModel[] = [];
  for (const [url, { name, hashes }] of await manifests(store)) {
    const bytes = hashes.reduce((sum, hash) => sum + (sizes.get(hash) ?? 0), 0);
    if (bytes > 0) models.push({ name, url, bytes });
  }
  const space = await usage();
  return { models, usage: space?.usage ?? 0, quota: space?.quota ?? 0 };
}

/** Forget a model; what another model shares with it stays. */
export async function removeModel(url: string): Promise<void> {
  const store = await openStore();
  await store.removeNote(MANIFEST + url);
  const keep = new Set([...(await manifests(store)).values()].flatMap(({ hashes }) => hashes));
  await evict(store, keep);
}

async function manifests(
  store: Store,
): Promise<Map<string, { readonly name: string; readonly hashes: readonly string[] }>> {
  const found = new Map<string, { name: string; hashes: readonly string[] }>();
  for (const key of await store.notes()) {
    if (!key.startsWith(MANIFEST)) continue;
    const data = await store.note(key);
    try {
      if (!data) continue;
      const { name, files } = parseManifest(data);
      const hashes = [...files.values()].flatMap(({ sha256, chunks }) => [sha256, ...chunks]);
      found.set(key.slice(MANIFEST.length), { name, hashes });
    } catch {
      // Not readable any more: nothing of it is kept.
    }
  }
  return found;
}
