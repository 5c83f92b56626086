/** The pieces of a bundle's files: what is fetched, verified and kept at a time. */

import { EdgewiseError, shorten } from "../errors.ts";
import { type BundleManifest, CHUNK_BYTES } from "../format/manifest.ts";

/** A file of up to 32 MiB, or 32 MiB of a larger one. */
export interface Piece {
  readonly sha256: string;
  readonly bytes: number;
  /** The file's path in its bundle. */
  readonly path: string;
  readonly url: string;
  /** Which bytes of a larger file these are; `end` is exclusive. */
  readonly range?: { readonly start: number; readonly end: number };
}

/**
 * The pieces of some files, in order.
 *
 * @throws EdgewiseError `bundle.missing` for a file the bundle does not have.
 */
export function pieces(
  manifest: Pick<BundleManifest, "files">,
  paths: readonly string[],
  baseUrl: string,
): readonly Piece[] {
  return paths.flatMap((path): Piece[] => {
    const file = manifest.files.get(path);
    if (!file) {
      throw new EdgewiseError("bundle.missing", `The bundle has no file ${shorten(path)}.`);
    }
    const { bytes, sha256, chunks } = file;
    const url = new URL(path, baseUrl).href;
    if (chunks.length === 0) return [{ sha256, bytes, path, url }];
    return chunks.map((chunk, i) => {
      const start = i * CHUNK_BYTES;
      const end = Math.min(start + CHUNK_BYTES, bytes);
      return { sha256: chunk, bytes: end - start, path, url, range: { start, end } };
    });
  });
}
