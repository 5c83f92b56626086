/**
 * A stamp that is there while a model is being loaded, also after the page has ended without a word: a
 * browser that runs out of memory kills a tab and opens it again, and a page that loads the same model
 * at once is killed again.
 */

import type { Offer } from "./offers.ts";
import { prefer, preference } from "./preferences.ts";

/** Held while the stamp is: another tab that loads something is no crash. */
const LOCK = "edgewise.loading";

const LESS_CONTEXT = 1024;

let latest = 0;

/** Load a model of this URL, stamped meanwhile. */
export async function stamped<T>(url: string, load: () => Promise<T>): Promise<T> {
  latest += 1;
  const mine = latest;
  const lift = () => {
    if (mine === latest) prefer("edgewise.loading", null);
  };
  const run = async () => {
    prefer("edgewise.loading", url);
    globalThis.addEventListener("pagehide", lift); // a person leaves: no crash
    try {
      return await load();
    } finally {
      globalThis.removeEventListener("pagehide", lift);
      lift();
    }
  };
  const locks = globalThis.navigator?.locks;
  return locks ? locks.request(LOCK, { mode: "shared" }, run) : run();
}

/** URL of the model at whose loading the page ended the last time, null where it did not. */
export async function interruptedLoad(): Promise<string | null> {
  const url = preference("edgewise.loading");
  if (url === null) return null;
  const state = await globalThis.navigator?.locks?.query();
  return state?.held?.some(({ name }) => name === LOCK) ? null : url;
}

/** Tokens of context that a model is loaded with where memory may have run out. */
export function lessContext({ context }: Pick<Offer, "context">): number {
  return Math.min(context, LESS_CONTEXT);
}
