/** KV pages that survive a reload: where they are kept, for whom, and how many. */

import { AtRest } from "../engine/at-rest.ts";
import type { EngineOptions } from "../engine/engine.ts";
import { pagedState } from "../format/state.ts";
import { pageKey, producerOf, rootKey } from "../kv/keys.ts";
import { PageStore } from "../kv/page-store.ts";
import { openPagesStore, usage } from "../store/store.ts";
import type { Loaded } from "./loader.ts";

/** Bytes kept where nobody says how many: a part of what the origin may keep, and so many at most. */
const SHARE = 0.1;
const MOST = 1 << 30;
const UNKNOWN_QUOTA = 1 << 30;

export interface KeptPages {
  readonly store: PageStore;
  readonly atRest: NonNullable<EngineOptions["atRest"]>;
}

/**
 * Where the pages of a loaded program are kept; null where this browser keeps nothing.
 *
 * @param limit bytes of all files; null for a share of what there is.
 */
export async function openPages(loaded: Loaded, limit: number | null): Promise<KeptPages | null> {
  const { files, gpu, program } = loaded;
  const store = await openPagesStore();
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
  const kept = { pages, keys, pageTokens };
  return { store: pages, atRest: (timer, memory) => new AtRest(kept, timer, memory) };
}

async function usualLimit(): Promise<number> {
  const { quota } = (await usage()) ?? { quota: UNKNOWN_QUOTA };
  return Math.floor(Math.min(quota * SHARE, MOST));
}
