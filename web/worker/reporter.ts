import type { LoadPhase, LoadProgress, Warning } from "../client/types.ts";

/** Messages about bytes are sent this often at most, in milliseconds. */
const EVERY_MS = 50;

/** Tells the page how loading goes, not more often than a person can see. */
export interface Reporter {
  progress(phase: LoadPhase, done: number, total: number, cached?: number): void;
  warning(warning: Warning): void;
}

/** A reporter that leaves out progress too soon after the last of the same phase; ends are kept. */
export function throttled(
  send: (progress: LoadProgress) => void,
  warn: (warning: Warning) => void,
): Reporter {
  let phase: LoadPhase | null = null;
  let last = 0;
  return {
    progress(next, done, total, cached = 0) {
      const now = performance.now();
      if (next === phase && done < total && now - last < EVERY_MS) return;
      phase = next;
      last = now;
      send({ phase: next, done, total, cached });
    },
    warning: warn,
  };
}
