/** What the store's tests share: contents, their pieces, and what a fetch is heard to say. */

import { createHash } from "node:crypto";
import type { FetchOptions } from "../../store/download.ts";
import type { Piece } from "../../store/pieces.ts";
import type { Host } from "./host.ts";

/** Bytes that look random, other ones for every seed. */
export function contents(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(length);
  let state = seed * 2654435761;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state >>> 24;
  }
  return data;
}

export function sha256(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

/** Puts a file on the host; the piece is all of it, or a range. */
export function publish(
  host: Host,
  path: string,
  data: Uint8Array,
  range?: { readonly start: number; readonly end: number },
): Piece {
  host.files.set(path, data);
  const own = range ? data.subarray(range.start, range.end) : data;
  const piece = { sha256: sha256(own), bytes: own.length, path, url: host.url + path };
  return range ? { ...piece, range } : piece;
}

export interface Heard {
  readonly options: FetchOptions;
  readonly abort: () => void;
  network: number;
  kept: number;
  readonly warnings: string[];
}

export function listen(): Heard {
  const controller = new AbortController();
  const heard: Heard = {
    abort: () => controller.abort(),
    network: 0,
    kept: 0,
    warnings: [],
    options: {
      signal: controller.signal,
      onBytes: (bytes, fromNetwork) => {
        if (fromNetwork) heard.network += bytes;
        else heard.kept += bytes;
      },
      onWarning: (code) => heard.warnings.push(code),
    },
  };
  return heard;
}
