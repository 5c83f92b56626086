/** One HTTP request for bytes of a file, checked as they come. */

import { EdgewiseError, shorten } from "../errors.ts";
import { eachPart } from "./stream.ts";

/** Statuses of hosts that may answer the next time. */
const PASSING: ReadonlySet<number> = new Set([408, 429]);

export interface Wanted {
  readonly url: string;
  /** The bytes of the file that are wanted; `end` is exclusive. */
  readonly start: number;
  readonly end: number;
  /** Whether the file has other bytes than these. Without, the whole answer is handed on. */
  readonly ranged: boolean;
}

/**
 * Hand the wanted bytes to `onPart` in order. Resolves once all have come.
 *
 * A host that ignores ranges sends the file from its start: what is not wanted is skipped. Lengths are
 * those of decoded bytes; what a transfer was compressed to is not looked at.
 *
 * @throws EdgewiseError `store.network` where another attempt may help, otherwise `store.http`.
 */
export async function receive(
  wanted: Wanted,
  onPart: (part: Uint8Array) => void,
  signal: AbortSignal,
): Promise<void> {
  const { url, start, end, ranged } = wanted;
  const response = await ask(wanted, signal);
  if (!response.body) {
    if (start === end) return;
    throw broken(url, "the answer is empty");
  }
  const whole = ranged && response.status !== 206;
  let skip = whole ? start : 0;
  let missing = end - start;
  try {
    await eachPart(response.body, (value) => {
      const skipped = Math.min(skip, value.length);
      skip -= skipped;
      const rest = value.subarray(skipped);
      const part = whole ? rest.subarray(0, missing) : rest;
      missing -= part.length;
      if (part.length > 0) onPart(part);
      return !(whole && missing === 0);
    });
  } catch (cause) {
    throw cause instanceof EdgewiseError ? cause : broken(url, said(cause), cause);
  }
  if (missing > 0) throw broken(url, `${missing} bytes are missing`);
}

async function ask({ url, start, end, ranged }: Wanted, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    // A cached answer for another range would be handed out whole by some browsers.
    response = await fetch(url, {
      signal,
      cache: "no-store",
      headers: ranged ? { Range: `bytes=${start}-${end - 1}` } : {},
    });
  } catch (cause) {
    throw broken(url, said(cause), cause);
  }
  const wrong = wrongAnswer(response, url, start, end, ranged);
  if (!wrong) return response;
  await response.body?.cancel().catch(() => undefined);
  throw wrong;
}

function wrongAnswer(
  { status, statusText, type, headers }: Response,
  url: string,
  start: number,
  end: number,
  ranged: boolean,
): EdgewiseError | null {
  if (status >= 500 || PASSING.has(status)) return broken(url, `it answered ${status}`);
  if (status !== 200 && (status !== 206 || !ranged)) {
    return new EdgewiseError(
      "store.http",
      `${url} answered ${`${status} ${statusText}`.trim()}.`,
      "The bundle on the host is not complete: copy or compile it again.",
    );
  }
  if (status === 200) return null;
  const range = headers.get("Content-Range");
  // Other origins need not show the header; the sha256 decides all the same.
  if (range === null && type === "cors") return null;
  const [, first, last] = /^bytes (\d+)-(\d+)\/(?:\d+|\*)$/.exec(range ?? "") ?? [];
  if (Number(first) === start && Number(last) >= start && Number(last) < end) return null;
  return new EdgewiseError(
    "store.http",
    `${url} sent ${shorten(range)} where bytes ${start}-${end - 1} were asked for.`,
    "Serve the bundle with a host that answers range requests.",
  );
}

function broken(url: string, why: string, cause?: unknown): EdgewiseError {
  return new EdgewiseError(
    "store.network",
    `${url} stopped arriving: ${why}.`,
    "Check the connection and load again: what has arrived is kept.",
    { cause },
  );
}

function said(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
