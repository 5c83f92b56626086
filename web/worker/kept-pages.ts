/** KV pages that survive a reload: where they are kept, for whom, and how many. */

import type { AtRestOptions } from "../engine/at-rest.ts";
import { pagedState } from "../format/state.ts";
import { pageKey, producerOf, rootKey } from "../kv/keys.ts";
import { PageStore } from "../kv/page-store.ts";
import { openIndexedDb } from "../store/indexeddb.ts";
import { openOpfs } from "../store/opfs.ts";
import { usage } from "../store/store.ts";
import type { Loaded } from "./loader.ts";

/** Beside the store of weights: nothing of it is evicted for a model, nor the other way round. */
const NAME = "edgewise-pages";
/** Bytes kept where nobody says how many: a part of what the origin may keep, and so many at most. */
const SHARE = 0.1;
const MOST = 1 << 30;
const UNKNOWN_QUOTA = 1 << 30;

export interface KeptPages {
  readonly store: PageStore;
  readonly atRest: AtRestOptions;
}

/**
 * Where the pages of a loaded program are kept; null where this browser keeps nothing.
 *
 * @param limit bytes of all files; null for a share of what there is.
 */
export async function openPages(loaded: Loaded, limit: number | null): Promise<KeptPages | null> {
  const { files, gpu, program } = loaded;
  const store = (await openOpfs(NAME)) ?? (await openIndexedDb(NAME));
  if (!store) return null;
  const manifest = await files.source();
  // Drivers differ in the last bits: pages are those of an adapter, too.
  const producer = `${await producerOf(manifest, program.program)}/${gpu.report.key}`;
  const { pageBytes } = program;
  const pages = await PageStore.open(store, {
    producer,
    pageBytes,
    limit: limit ?? (await usualLimit()),
  });
  const keys = { root: await rootKey(manifest, program.program), next: pageKey };
  const { pageTokens } = pagedState(files.manifest);
  return { store: pages, atRest: { pages, keys, pageTokens } };
}

async function usualLimit(): Promise<number> {
  const { quota } = (await usage()) ?? { quota: UNKNOWN_QUOTA };
  return Math.floor(Math.min(quota * SHARE, MOST));
}
