/** Fetching a piece: from the store where it is there, otherwise over HTTP, always verified. */

import { sha256Hex } from "../digest.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { CHUNK_BYTES } from "../format/manifest.ts";
import { isFull, isLocked } from "./dom-errors.ts";
import { receive } from "./http.ts";
import type { Piece } from "./pieces.ts";
import { speeds } from "./speed.ts";
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

type Bytes = Uint8Array<ArrayBuffer>;

/** A download as far as it got; `kept` of the `at` bytes that are there came from the store. */
interface Arriving {
  readonly data: Bytes;
  readonly kept: number;
  at: number;
}

/**
 * The verified contents of one piece; kept in the store, if there is room.
 *
 * @throws EdgewiseError `bundle.checksum` where the host sends other bytes twice, `bundle.size` where it
 *   sends more or a piece is larger than any may be, `store.http`, `store.network`, `load.aborted`.
 *   After the last two, what had arrived is kept and not fetched again.
 */
export async function fetchPiece(
  piece: Piece,
  store: Store,
  options: FetchOptions,
): Promise<Bytes> {
  const { onBytes, signal } = options;
  throwIfAborted(signal);
  checkSize(piece);
  const stored = await keptPiece(piece, store);
  if (stored) {
    throwIfAborted(signal);
    onBytes?.(stored.length, false);
    return stored;
  }
  for (const last of [false, true]) {
    const { data, kept } = await download(piece, store, options);
    if ((await sha256Hex(data)) === piece.sha256) {
      await keep(piece, data, store, options);
      return data;
    }
    onBytes?.(kept - data.length, true);
    if (kept > 0) onBytes?.(-kept, false);
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

/** What the store has of a piece, if that is all of it: it has no other any more. */
async function keptPiece({ sha256, bytes }: Piece, store: Store): Promise<Bytes | null> {
  const came = speeds.store.begin();
  let found: number | null = null;
  try {
    const stored = await store.read(sha256).catch(() => null);
    if (!stored) return null;
    if (stored.length === bytes && (await sha256Hex(stored)) === sha256) {
      found = bytes;
      return stored;
    }
    await store.remove(sha256).catch(() => undefined);
    return null;
  } finally {
    came(found);
  }
}

/** Before memory is asked for. */
function checkSize({ path, bytes }: Piece): void {
  if (Number.isSafeInteger(bytes) && bytes >= 0 && bytes <= CHUNK_BYTES) return;
  throw new EdgewiseError(
    "bundle.size",
    `${path} has a piece of ${shorten(bytes)} bytes; ${CHUNK_BYTES} are the most.`,
    "Compile the model anew.",
  );
}

async function keep(piece: Piece, data: Bytes, store: Store, options: FetchOptions): Promise<void> {
  try {
    await store.write(piece.sha256, data);
  } catch (error) {
    // Another tab keeps the same piece just now.
    if (isLocked(error)) return;
    const full = isFull(error);
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
async function download(piece: Piece, store: Store, options: FetchOptions): Promise<Arriving> {
  const { signal } = options;
  const arriving = await begin(piece, store);
  const came = speeds.network.begin();
  if (arriving.kept > 0) options.onBytes?.(arriving.kept, false);
  const onPart = (part: Uint8Array): void => {
    if (arriving.at + part.length > piece.bytes) {
      throw new EdgewiseError(
        "bundle.size",
        `${piece.path} is longer than the ${piece.bytes} bytes its bundle says.`,
        "The host's copy is damaged: compile the model anew.",
      );
    }
    arriving.data.set(part, arriving.at);
    arriving.at += part.length;
    options.onBytes?.(part.length, true);
  };
  try {
    for (let attempt = 0; ; attempt++) {
      throwIfAborted(signal);
      try {
        await receive(rest(piece, arriving.at), onPart, signal);
        return arriving;
      } catch (error) {
        throwIfAborted(signal);
        if (!hasCode(error, "store.network")) throw error;
        // The connection broke after the last byte.
        if (piece.bytes > 0 && arriving.at === piece.bytes) return arriving;
        const wait = RETRY_MS[attempt];
        if (wait === undefined) throw error;
        await pause(wait, signal);
      }
    }
  } catch (error) {
    const { data, at, kept } = arriving;
    if (at > kept && at < piece.bytes && !hasCode(error, "bundle.size")) {
      await store.writePartial(piece.sha256, data.subarray(0, at)).catch(() => undefined);
    }
    throw error;
  } finally {
    came(arriving.at - arriving.kept);
  }
}

/** Room for a piece, with what had arrived of it before. */
async function begin(piece: Piece, store: Store): Promise<Arriving> {
  const before = await store.readPartial(piece.sha256).catch(() => null);
  const data = new Uint8Array(piece.bytes);
  const kept = before && before.length < piece.bytes ? before.length : 0;
  if (before && kept > 0) data.set(before);
  return { data, kept, at: kept };
}

function rest({ url, bytes, range }: Piece, at: number) {
  const start = (range?.start ?? 0) + at;
  return { url, start, end: range?.end ?? bytes, ranged: range !== undefined || at > 0 };
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof EdgewiseError && error.code === code;
}

function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) {
    throw new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}
