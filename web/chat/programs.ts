/** What of a model this device can run, and what that takes. */

import { weightBytes } from "../engine/memory.ts";
import type { BundleManifest } from "../format/manifest.ts";
import { fitting } from "../format/programs.ts";
import { footprintOf, pageSize } from "../format/state.ts";

/** A program that this adapter can run. */
export interface Runnable {
  readonly id: string;
  /** Bytes of its weights, in memory. */
  readonly weights: number;
  /** Bytes of a conversation of so many tokens. */
  conversation(tokens: number): number;
}

/** The programs of a model for which an adapter has what they need, in the compiler's order. */
export function runnable(
  manifest: BundleManifest,
  features: readonly string[],
): readonly Runnable[] {
  const footprint = footprintOf(manifest);
  return fitting(manifest, new Set(features)).map((program) => ({
    id: program.id,
    weights: weightBytes(manifest, program),
    conversation: (tokens) => footprint.pages(tokens) * pageSize(program),
  }));
}
