/** Fetching many pieces: large ones one after the other, small ones a few at a time. */

import { type FetchOptions, fetchPiece } from "./fetch.ts";
import type { Piece } from "./pieces.ts";
import type { Store } from "./store.ts";

export { type FetchOptions, fetchPiece } from "./fetch.ts";

/** Bytes of pieces held for `streamPieces` just now, and the most there were. */
export const outstanding = { now: 0, peak: 0 };

type Bytes = Uint8Array<ArrayBuffer>;

/**
 * Hand pieces to `use` in order, fetching the next while one is in use. Rejects with the first error,
 * once nothing runs any more.
 *
 * @param options `maxOutstanding`: how many pieces are held at most, the one in use included.
 */
export async function streamPieces(
  pieces: readonly Piece[],
  store: Store,
  use: (piece: Piece, data: Bytes) => Promise<void>,
  options: FetchOptions & { readonly maxOutstanding?: number },
): Promise<void> {
  const ending = new AbortController();
  const once = together(options, ending);
  const ahead = Math.max(1, options.maxOutstanding ?? 2) - 1;
  const queue: Promise<Bytes>[] = [];
  let held = 0;
  /** One download at a time: the piece that is needed first has all of the line. */
  const begin = (piece: Piece): Promise<Bytes> => {
    held += piece.bytes;
    outstanding.now += piece.bytes;
    outstanding.peak = Math.max(outstanding.peak, outstanding.now);
    const fetching = () => fetchPiece(piece, store, once);
    const fetched = queue.at(-1)?.then(fetching) ?? fetching();
    fetched.catch(() => undefined); // it may fail while nobody waits for it yet
    return fetched;
  };
  try {
    for (const [i, piece] of pieces.entries()) {
      const data = await (queue.shift() ?? begin(piece));
      for (const next of pieces.slice(i + 1 + queue.length, i + 1 + ahead)) queue.push(begin(next));
      await use(piece, data);
      outstanding.now -= piece.bytes;
      held -= piece.bytes;
    }
  } catch (error) {
    ending.abort();
    await Promise.allSettled(queue);
    throw error;
  } finally {
    outstanding.now -= held;
  }
}

/**
 * The verified contents of many small pieces by their sha256, a few at a time. Rejects with the first
 * error, once nothing runs any more.
 */
export async function fetchAll(
  pieces: readonly Piece[],
  store: Store,
  options: FetchOptions & { readonly concurrency?: number },
): Promise<Map<string, Bytes>> {
  const ending = new AbortController();
  const once = together(options, ending);
  const found = new Map<string, Bytes>();
  const wanted = [...new Map(pieces.map((piece) => [piece.sha256, piece])).values()];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let piece = wanted[next++]; piece; piece = wanted[next++]) {
      found.set(piece.sha256, await fetchPiece(piece, store, once));
    }
  };
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.max(1, options.concurrency ?? 6) }, () =>
    work().catch((error: unknown) => {
      failures.push(error);
      ending.abort();
    }),
  );
  await Promise.all(workers);
  if (failures.length > 0) throw failures[0];
  return found;
}

/** Options for pieces that end together and warn of the same thing once. */
function together(options: FetchOptions, ending: AbortController): FetchOptions {
  const { onWarning } = options;
  const warned = new Set<string>();
  return {
    ...options,
    signal: AbortSignal.any([options.signal, ending.signal]),
    onWarning: (code, ...rest) => {
      if (!warned.has(code)) onWarning?.(code, ...rest);
      warned.add(code);
    },
  };
}
