/** Whether KV pages of a bundle's pack are to be had sooner than they are computed. */

/** How fast things go here, as measured; null where nothing is known. */
export interface Speeds {
  /** Tokens of prompts that are computed in a second. */
  readonly prefill: number;
  /** Bytes in a millisecond, over the network and from the browser's store. */
  readonly network: number | null;
  readonly store: number | null;
}

/** Some pages that a prompt needs next. */
export interface Wanted {
  readonly tokens: number;
  /** Bytes of their files, by where they are. */
  readonly network: number;
  readonly store: number;
}

/** Milliseconds that pages may always take: nobody sees them, and timers are no better. */
const UNSEEN_MS = 20;

/**
 * Milliseconds that pages may take to come; null where computing them should be over sooner.
 *
 * They may take as long as computing them would: who waits for what does not come waits twice as long as without a pack
 * at most. Where it is not known how fast they come they are tried: a few at a time, and then it is known.
 */
export function patience({ tokens, ...bytes }: Wanted, speeds: Speeds): number | null {
  const computing = (1000 * tokens) / speeds.prefill;
  const coming = took(bytes.network, speeds.network) + took(bytes.store, speeds.store);
  return coming > computing ? null : Math.max(computing, UNSEEN_MS);
}

function took(bytes: number, bytesPerMs: number | null): number {
  return bytes === 0 || bytesPerMs === null ? 0 : bytes / bytesPerMs;
}

/**
 * Tokens a second that prefill is taken to compute before it has: what a chunk is known to have within its time, or what
 * whoever made the pack reached, whichever is more. A device that is faster still computes a prompt that it might have
 * fetched, once; taken for slower than it is, it would wait for a network.
 *
 * @param firstChunk rows that are estimated to be computed in `chunkMs` at most.
 * @param made tokens a second where the pack was computed; 0 where nobody knows.
 */
export function presumedPrefill(firstChunk: number, chunkMs: number, made: number): number {
  return Math.max((1000 * firstChunk) / chunkMs, made);
}
