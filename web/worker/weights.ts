/** Weights on their way from the host or the store to the device, a piece at a time. */

import type { LoadedProgram } from "../device/base.ts";
import type { BundleManifest, TensorEntry } from "../format/manifest.ts";
import { streamPieces } from "../store/download.ts";
import { type Piece, pieces } from "../store/pieces.ts";
import type { Store } from "../store/store.ts";

export interface WeightOptions {
  readonly signal: AbortSignal;
  /** Hears of every few bytes: how many, and whether they came over the network. */
  readonly onBytes: (bytes: number, fromNetwork: boolean) => void;
  readonly onWarning: (code: string, message: string, remedy: string) => void;
}

interface Placed {
  readonly name: string;
  readonly entry: TensorEntry;
}

/** The pieces that hold the parameters of a program, and how many bytes they are. */
export function weightPieces(
  manifest: BundleManifest,
  program: LoadedProgram,
  base: string,
): { readonly pieces: readonly Piece[]; readonly bytes: number } {
  const files = [...parameters(program).keys()].sort();
  const found = pieces(manifest, files, base);
  return { pieces: found, bytes: found.reduce((sum, piece) => sum + piece.bytes, 0) };
}

/**
 * Copy every parameter of a program to the device. What a piece holds is dropped once the device has
 * it, so the loader never holds more than two.
 */
export async function uploadWeights(
  program: LoadedProgram,
  all: readonly Piece[],
  store: Store,
  options: WeightOptions,
): Promise<void> {
  const byFile = parameters(program);
  await streamPieces(
    all,
    store,
    async (piece, data) => {
      const start = piece.range?.start ?? 0;
      for (const { name, entry } of byFile.get(piece.path) ?? []) {
        const from = Math.max(entry.offset, start);
        const to = Math.min(entry.offset + entry.bytes, start + data.length);
        if (from < to) {
          program.upload(name, from - entry.offset, data.subarray(from - start, to - start));
        }
      }
      await program.settled();
    },
    options,
  );
}

/** The parameters a program's plans name, by the file they lie in. */
function parameters(program: LoadedProgram): Map<string, Placed[]> {
  const tensors = program.manifest.layouts.get(program.program.layout) ?? new Map();
  const byFile = new Map<string, Placed[]>();
  const seen = new Set<string>();
  for (const plan of program.plans.values()) {
    for (const { name, role } of plan.buffers) {
      const entry: TensorEntry | undefined = tensors.get(name);
      if (role !== "param" || entry === undefined || seen.has(name)) continue;
      seen.add(name);
      const placed = byFile.get(entry.file);
      if (placed) placed.push({ name, entry });
      else byFile.set(entry.file, [{ name, entry }]);
    }
  }
  return byFile;
}
