/** Fetching pieces: from the store where they are there, otherwise over HTTP, always verified. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { Piece } from "./pieces.ts";
import type { Store } from "./store.ts";

/** Milliseconds before the second and the third attempt. */
const RETRY_MS = [300, 1200] as const;

export interface FetchOptions {
  readonly signal: AbortSignal;
  /** Hears of bytes as they come: how many (negative where some turned out wrong), and from where. */
  readonly onBytes?: (bytes: number, fromNetwork: boolean) => void;
  /** Hears what does not keep a piece from being used. */
  readonly onWarning?: (code: string, message: string, remedy: string) => void;
}

/** Bytes of pieces held for `streamPieces` just now, and the most there were. */
export const outstanding = { now: 0, peak: 0 };

type Bytes = Uint8Array<ArrayBuffer>;

/**
 * The verified contents of one piece; kept in the store, if there is room.
 *
 * @throws EdgewiseError `bundle.checksum` where the host sends other bytes twice, `store.http`,
 *   `store.network`, `load.aborted`. What had arrived is kept and not fetched again.
 */
export async function fetchPiece(
  piece: Piece,
  store: Store,
  options: FetchOptions,
): Promise<Bytes> {
  const { onBytes, signal } = options;
  const kept = await store.read(piece.sha256).catch(() => null);
  if (kept && kept.length === piece.bytes && (await digest(kept)) === piece.sha256) {
    onBytes?.(kept.length, false);
    return kept;
  }
  if (kept) await store.remove(piece.sha256).catch(() => undefined);
  for (const last of [false, true]) {
    throwIfAborted(signal);
    const data = await download(piece, store, options);
    if ((await digest(data)) === piece.sha256) {
      await keep(piece, data, store, options);
      return data;
    }
    onBytes?.(-data.length, true);
    // What arrived earlier may be what was wrong.
    await store.remove(piece.sha256).catch(() => undefined);
    if (last) break;
  }
  throw new EdgewiseError(
    "bundle.checksum",
    `${piece.path} came with other bytes than its bundle says (sha256 is not ` +
      `${piece.sha256.slice(0, 12)}…).`,
    "Load again; if it goes on, the host's copy is damaged and the model must be compiled anew.",
  );
}

async function keep(piece: Piece, data: Bytes, store: Store, options: FetchOptions): Promise<void> {
  try {
    await store.write(piece.sha256, data);
  } catch (error) {
    const full = error instanceof DOMException && error.name === "QuotaExceededError";
    const why = error instanceof Error ? error.message : String(error);
    options.onWarning?.(
      full ? "store.full" : "store.write",
      full
        ? "This browser has no room left for the model: it runs, but is fetched again next time."
        : `The model cannot be kept: ${why}`,
      full ? "Delete other models in the settings, or free space on this device." : "",
    );
  }
}

/** Download a piece, from where an earlier attempt ended. Not yet verified. */
async function download(piece: Piece, store: Store, options: FetchOptions): Promise<Bytes> {
  const { signal, onBytes } = options;
  const target = new Uint8Array(piece.bytes);
  let at = 0;
  const before = await store.readPartial(piece.sha256).catch(() => null);
  if (before && before.length < piece.bytes) {
    target.set(before);
    at = before.length;
    onBytes?.(at, false);
  }
  const onPart = (part: Uint8Array): void => {
    if (at + part.length > piece.bytes) {
      throw new EdgewiseError(
        "bundle.size",
        `${piece.path} is longer than the ${piece.bytes} bytes its bundle says.`,
        "The host's copy is damaged: compile the model anew.",
      );
    }
    target.set(part, at);
    at += part.length;
    onBytes?.(part.length, true);
  };
  try {
    for (let attempt = 0; ; attempt++) {
      throwIfAborted(signal);
      try {
        await receive(piece, at, onPart, signal);
        return target;
      } catch (error) {
        const wait = RETRY_MS[attempt];
        const final = error instanceof EdgewiseError && error.code !== "store.network";
        if (signal.aborted) throw aborted();
        if (final || wait === undefined) throw error;
        await pause(wait, signal);
      }
    }
  } catch (error) {
    if (at > 0 && at < piece.bytes) {
      await store.writePartial(piece.sha256, target.slice(0, at)).catch(() => undefined);
    }
    throw error;
  }
}

/** One request for the bytes of a piece from `at` on. Resolves once all of them have come. */
async function receive(
  piece: Piece,
  at: number,
  onPart: (part: Uint8Array) => void,
  signal: AbortSignal,
): Promise<void> {
  const start = (piece.range?.start ?? 0) + at;
  const end = piece.range?.end ?? piece.bytes;
  const ranged = piece.range !== undefined || at > 0;
  const network = (why: string, cause?: unknown) =>
    new EdgewiseError(
      "store.network",
      `${piece.url} stopped arriving: ${why}.`,
      "Check the connection and load again: what has arrived is kept.",
      { cause },
    );
  let response: Response;
  try {
    // A cached answer for another range would be handed out whole by some browsers.
    response = await fetch(piece.url, {
      signal,
      cache: "no-store",
      headers: ranged ? { Range: `bytes=${start}-${end - 1}` } : {},
    });
  } catch (cause) {
    throw network(cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (response.status >= 500) throw network(`it answered ${response.status}`);
  if (!response.ok) {
    throw new EdgewiseError(
      "store.http",
      `${piece.url} answered ${response.status} ${response.statusText}.`,
      "The bundle on the host is not complete: copy or compile it again.",
    );
  }
  let skip = ranged && response.status !== 206 ? start : 0;
  if (response.status === 206) checkRange(response.headers.get("Content-Range"), start, piece);
  let missing = end - start;
  const reader = response.body?.getReader();
  if (!reader) throw network("the answer is empty");
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) break;
      const skipped = Math.min(skip, value.length);
      skip -= skipped;
      let part = value.subarray(skipped);
      // A host without ranges sends the whole file: what follows the piece is not wanted.
      if (ranged && response.status !== 206) part = part.subarray(0, missing);
      missing -= part.length;
      if (part.length > 0) onPart(part);
      if (missing === 0 && ranged && response.status !== 206) {
        await reader.cancel();
        break;
      }
    }
  } catch (cause) {
    if (cause instanceof EdgewiseError) {
      await reader.cancel().catch(() => undefined);
      throw cause;
    }
    throw network(cause instanceof Error ? cause.message : String(cause), cause);
  }
  if (missing > 0) throw network(`${missing} bytes are missing`);
}

function checkRange(header: string | null, start: number, piece: Piece): void {
  if (header?.startsWith(`bytes ${start}-`)) return;
  throw new EdgewiseError(
    "store.http",
    `${piece.url} sent ${shorten(header)} where bytes from ${start} on were asked for.`,
    "Serve the bundle with a host that answers range requests.",
  );
}

async function digest(data: Bytes): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Hand pieces to `use` one after the other, fetching the next while one is in use: at most two are
 * held. Rejects with the first error, once nothing runs any more.
 */
export async function streamPieces(
  pieces: readonly Piece[],
  store: Store,
  use: (piece: Piece, data: Bytes) => Promise<void>,
  options: FetchOptions,
): Promise<void> {
  const ending = new AbortController();
  const signal = AbortSignal.any([options.signal, ending.signal]);
  let warned = false;
  const once: FetchOptions = {
    ...options,
    signal,
    onWarning: (...warning) => {
      if (!warned) options.onWarning?.(...warning);
      warned = true;
    },
  };
  const hold = (piece: Piece): Promise<Bytes> => {
    outstanding.now += piece.bytes;
    outstanding.peak = Math.max(outstanding.peak, outstanding.now);
    const fetched = fetchPiece(piece, store, once);
    // It may fail while nobody waits for it yet.
    fetched.catch(() => undefined);
    return fetched;
  };
  let next: Promise<Bytes> | null = null;
  let held = 0;
  try {
    for (const [i, piece] of pieces.entries()) {
      if (!next) held += piece.bytes;
      const data = await (next ?? hold(piece));
      const following = pieces[i + 1];
      if (following) {
        held += following.bytes;
        next = hold(following);
      }
      await use(piece, data);
      outstanding.now -= piece.bytes;
      held -= piece.bytes;
    }
  } catch (error) {
    ending.abort();
    await next?.catch(() => undefined);
    throw error;
  } finally {
    outstanding.now -= held;
  }
}

/** The verified contents of many small pieces by their sha256, a few at a time. */
export async function fetchAll(
  pieces: readonly Piece[],
  store: Store,
  options: FetchOptions & { readonly concurrency?: number },
): Promise<Map<string, Bytes>> {
  const found = new Map<string, Bytes>();
  const wanted = [...new Map(pieces.map((piece) => [piece.sha256, piece])).values()];
  let next = 0;
  const work = async () => {
    for (let piece = wanted[next++]; piece; piece = wanted[next++]) {
      found.set(piece.sha256, await fetchPiece(piece, store, options));
    }
  };
  await Promise.all(Array.from({ length: options.concurrency ?? 6 }, work));
  return found;
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw aborted();
}

function aborted(): EdgewiseError {
  return new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
