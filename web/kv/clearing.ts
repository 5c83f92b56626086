/**
 * Clearing pages at rest while others may be writing some: what is cleared stays cleared.
 *
 * The store has a note that is another after each clearing, the epoch. Who clears changes it before anything is removed;
 * who writes looks at it before and after, and takes back what is of another one. Where the browser has
 * locks nobody writes while somebody clears, so that nothing of it is seen even for a moment.
 */

import type { Store } from "../store/store.ts";

const EPOCH = "epoch";
const LOCK = "edgewise-pages-files";

/** The store's epoch, made where it has none; null where it cannot keep one. */
export async function epochOf(store: Store): Promise<string | null> {
  const known = await store.note(EPOCH);
  if (known) return new TextDecoder().decode(known);
  await store.setNote(EPOCH, new TextEncoder().encode(crypto.randomUUID()));
  const kept = await store.note(EPOCH);
  return kept && new TextDecoder().decode(kept);
}

/** Remove all pages, those too that somebody is writing; the epoch from then on. */
export function clearPages(store: Store): Promise<string> {
  const epoch = crypto.randomUUID();
  const note = new TextEncoder().encode(epoch);
  return alone(async () => {
    await store.setNote(EPOCH, note);
    await store.clear();
    await store.setNote(EPOCH, note);
    return epoch;
  });
}

/** Write or remove files while nobody else does, where the browser has locks; one change after the other. */
export function alone<T>(change: () => Promise<T>): Promise<T> {
  const locks = globalThis.navigator?.locks;
  return locks ? locks.request(LOCK, { mode: "exclusive" }, change) : change();
}
