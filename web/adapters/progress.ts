/** How far loading is, as one number. */

import type { LoadProgress } from "../client/types.ts";

/** As a part of 1: nearly all of the time goes to the weights. Phases overlap, so it may go back. */
export function partOf({ phase, done, total }: LoadProgress): number {
  const share = total > 0 ? done / total : 0;
  if (phase === "ready") return 1;
  return phase === "weights" ? 0.1 + 0.9 * share : 0.1 * share;
}
