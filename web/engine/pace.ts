/** How much to ask of the device at once, from how long it took so far. */

/** Tokens of a sequence that are decoded before the host looks at them. */
export const MAX_BURST = 8;
/** A burst takes about so long at most, so that a reader sees text flow, milliseconds. */
const BURST_MS = 100;
const FIRST_CHUNK = 128;
const LEAST_CHUNK = 16;
/** Chunks of a prompt grow when they take less than this, and shrink when more than that. */
const CHUNK_MS = { grow: 60, shrink: 250 } as const;

export class Pace {
  private readonly mostRows: number;
  private readonly mostSteps: number;
  private readonly timely: boolean;
  private rows: number;
  /** Milliseconds of one decode step; null before the first. */
  private stepMs: number | null = null;

  /**
   * @param prefillChunk most rows of a step.
   * @param maxBurst most tokens of a burst, whatever time it takes; null for `MAX_BURST`, and fewer
   *   where they take longer than a tenth of a second.
   * @param firstChunk rows of the first chunk.
   */
  constructor(prefillChunk: number, maxBurst: number | null, firstChunk = FIRST_CHUNK) {
    this.mostRows = prefillChunk;
    this.mostSteps = maxBurst ?? MAX_BURST;
    this.timely = maxBurst === null;
    this.rows = Math.min(firstChunk, prefillChunk);
  }

  /** Rows of the next chunk of a prompt. */
  get chunk(): number {
    return this.rows;
  }

  /** Steps of a burst after so many: they grow from one, so that the first tokens come at once. */
  burst(before: number): number {
    const grown = 2 ** Math.min(before, 16);
    const most = Math.min(this.mostSteps, grown);
    if (!this.timely || this.stepMs === null) return most;
    return Math.min(most, Math.max(1, Math.floor(BURST_MS / this.stepMs)));
  }

  tookChunk(rows: number, ms: number): void {
    if (ms > CHUNK_MS.shrink) {
      const fewer = 2 ** Math.floor(Math.log2(Math.max(rows / 2, 1)));
      this.rows = Math.min(this.rows, Math.max(fewer, Math.min(LEAST_CHUNK, this.mostRows)));
    } else if (ms < CHUNK_MS.grow && rows === this.rows) {
      this.rows = Math.min(2 * rows, this.mostRows);
    }
  }

  tookBurst(steps: number, ms: number): void {
    const measured = ms / steps;
    this.stepMs = this.stepMs === null ? measured : (this.stepMs + measured) / 2;
  }
}
