/** KV pages of conversations on this device: how many there may be, what there is, and forgetting it. */

import { clearPages } from "../kv/clearing.ts";
import { openPagesStore } from "../store/store.ts";
import { prefer } from "./preferences.ts";

/** What a person may choose, in bytes; null for what the engine does by itself. */
export const LIMITS: readonly (number | null)[] = [null, 0, 256 << 20, 1 << 30, 4 * 2 ** 30];

export interface KeptPages {
  readonly pages: number;
  readonly bytes: number;
}

/** Holds from the next time that a model is loaded. */
export function limitPages(bytes: number | null): void {
  prefer("edgewise.keepPages", bytes === null ? null : String(bytes));
}

export async function keptPages(): Promise<KeptPages> {
  const listed = (await (await openPagesStore())?.list()) ?? [];
  return { pages: listed.length, bytes: listed.reduce((sum, { bytes }) => sum + bytes, 0) };
}

/** Remove the pages of all models, those too that a model in another tab is writing. */
export async function forgetPages(): Promise<void> {
  const store = await openPagesStore();
  if (store) await clearPages(store);
}
