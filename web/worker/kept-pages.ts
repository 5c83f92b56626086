/** KV pages that nobody has to compute here: those that survive a reload, and those that the bundle ships. */

import { AtRest } from "../engine/at-rest.ts";
import type { EngineOptions } from "../engine/engine.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import type { PackIndex } from "../format/packs.ts";
import { footprintOf, groupKey } from "../format/state.ts";
import { pageKey, producerOf, rootKey } from "../kv/keys.ts";
import { presumedPrefill } from "../kv/pack-choice.ts";
import { PageStore } from "../kv/page-store.ts";
import { readPackIndex, ShippedPages } from "../kv/shipped.ts";
import { speeds } from "../store/speed.ts";
import { openPagesStore, usage } from "../store/store.ts";
import { CHUNK_MS } from "./first-chunk.ts";
import type { Loaded } from "./loader.ts";
import type { LoadRequest } from "./protocol.ts";
import type { Reporter } from "./reporter.ts";

/** Bytes kept where nobody says how many: a part of what the origin may keep, and so many at most. */
const SHARE = 0.1;
const MOST = 1 << 30;
const UNKNOWN_QUOTA = 1 << 30;
/** Milliseconds after the last answer, where nobody says how many; what timers can wait for. */
const SPILL_AFTER_MS = 60_000;
const MOST_MS = 2 ** 31 - 1;

export interface KeptPages {
  /** Null where this browser keeps nothing, or is not to. */
  readonly store: PageStore | null;
  readonly atRest: NonNullable<EngineOptions["atRest"]>;
  close(): Promise<void>;
}

/**
 * The pages that there are for a loaded program, and where its own are kept; null for none and nowhere.
 *
 * @throws EdgewiseError `bundle.*` for an index of packs that is damaged or malformed, `load.aborted`, `input.spill`.
 */
export async function openPages(
  request: Pick<LoadRequest, "keepPages" | "prefixPacks" | "spillAfterMs">,
  loaded: Loaded,
  reporter: Reporter,
): Promise<KeptPages | null> {
  const { files, gpu, program } = loaded;
  const spillAfter = waitOf(request);
  const manifest = await files.source();
  const { pageTokens } = footprintOf(files.manifest);
  const ending = new AbortController();
  const shipped = await openShipped(request, loaded, reporter, ending.signal);
  // Drivers differ in the last bits: pages are those of an adapter, too.
  const own = `${await producerOf(manifest, program.program)}/${gpu.report.key}`;
  // What follows pages that somebody else has computed is not what this adapter alone would compute.
  const foreign = shipped !== null && shipped.computedBy !== own;
  const producer = foreign ? `${own}/packs-${shipped.digest}` : own;
  const pages = await openStore(request, producer, program.pageBytes);
  if (!pages && !shipped) return null;
  const root = await rootKey(manifest, program.program);
  const keys = { root, next: pageKey, ofGroup: groupKey };
  const options = { pages, shipped, keys, pageTokens, spillAfter };
  return {
    store: pages,
    atRest: (timer, memory) => new AtRest(options, timer, memory),
    close: async () => {
      ending.abort();
      await pages?.close();
    },
  };
}

async function openShipped(
  { prefixPacks = true }: Pick<LoadRequest, "prefixPacks">,
  { files, program, firstChunk }: Loaded,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<ShippedPages | null> {
  if (prefixPacks === false) return null;
  const footprint = footprintOf(files.manifest);
  const { pageTokens } = footprint;
  const { pageBytes } = program;
  try {
    const index = await readPackIndex(files, program.program, footprint, pageBytes);
    if (!index) return null;
    return await ShippedPages.open(files, program.program, index, {
      pageBytes,
      pageTokens,
      speeds: (prefill) => ({
        prefill: prefill ?? presumed(index, firstChunk),
        network: speeds.network.bytesPerMs,
        store: speeds.store.bytesPerMs,
      }),
      always: prefixPacks === "always",
      signal,
    });
  } catch (error) {
    // The host does not have what bundle.json lists, or cannot be asked: a model without packs is one all the same.
    if (!(error instanceof EdgewiseError) || !error.code.startsWith("store.")) throw error;
    const message = `The bundle's packs cannot be read: ${error.message}`;
    reporter.warning({ code: "load.packs", message, remedy: "Prompts are computed instead." });
    return null;
  }
}

function presumed({ packs }: PackIndex, firstChunk: number): number {
  const made = Math.max(0, ...packs.map((pack) => pack.prefillTokensPerSecond));
  return presumedPrefill(firstChunk, CHUNK_MS, made);
}

async function openStore(
  { keepPages }: Pick<LoadRequest, "keepPages">,
  producer: string,
  pageBytes: number,
): Promise<PageStore | null> {
  if (keepPages === false || keepPages === 0) return null;
  const store = await openPagesStore();
  if (!store) return null;
  return PageStore.open(store, { producer, pageBytes, limit: keepPages ?? (await usualLimit()) });
}

function waitOf({
  spillAfterMs = SPILL_AFTER_MS,
}: Pick<LoadRequest, "spillAfterMs">): number | null {
  if (spillAfterMs === null || (spillAfterMs >= 0 && spillAfterMs <= MOST_MS)) return spillAfterMs;
  throw new EdgewiseError(
    "input.spill",
    `spillAfterMs is ${shorten(spillAfterMs)}; it must be a number from 0 to ${MOST_MS}, or null.`,
    "Leave it out for a minute.",
  );
}

async function usualLimit(): Promise<number> {
  const { quota } = (await usage()) ?? { quota: UNKNOWN_QUOTA };
  return Math.floor(Math.min(quota * SHARE, MOST));
}
