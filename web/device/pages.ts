/** Pages of state as bytes: each buffer's row after the other, as on the host. */

import { EdgewiseError } from "../errors.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import { pagedState, pageRows, rowBytes } from "../format/state.ts";

/** A buffer's part of a page. */
export interface PagePart {
  readonly buffer: string;
  /** Where it lies among the page's bytes, and how many there are. */
  readonly start: number;
  readonly bytes: number;
}

/**
 * What a program's page is made of, whichever state group takes it.
 *
 * @throws EdgewiseError `unsupported.state`.
 */
export function pageParts(manifest: BundleManifest, program: Program): readonly PagePart[] {
  const rows = [...pageRows(pagedState(manifest), program.stateDtype)];
  let start = 0;
  return rows.map(([buffer, row]) => {
    const bytes = rowBytes(row);
    const part = { buffer, start, bytes };
    start += bytes;
    return part;
  });
}

/** Bytes of a page of these parts. */
export function pageBytes(parts: readonly PagePart[]): number {
  const last = parts.at(-1);
  return last ? last.start + last.bytes : 0;
}

/** @throws EdgewiseError `device.buffer` for a page that there is not. */
export function checkPage(page: number, pages: number): void {
  if (Number.isInteger(page) && page >= 0 && page < pages) return;
  throw new EdgewiseError("device.buffer", `Page ${page} is not one of ${pages}.`);
}

/** @throws EdgewiseError `device.buffer` for bytes that are no page. */
export function checkPageBytes(data: Uint8Array, bytes: number): void {
  if (data.length === bytes) return;
  throw new EdgewiseError("device.buffer", `A page has ${bytes} bytes, not ${data.length}.`);
}
