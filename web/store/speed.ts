/** How fast bytes come, over the network and from the store, as they did of late. */

/** Stretches of time that count, and the milliseconds after which they say nothing of what is now. */
const STRETCHES = 8;
const STALE_MS = 5 * 60_000;
/** Milliseconds in all that are too few to tell a speed from a timer's steps. */
const LEAST_MS = 1;

interface Stretch {
  readonly bytes: number;
  readonly ms: number;
  readonly ended: number;
}

/** Transfers that overlap are one stretch: what counts is what came in the time in which something was to come. */
export class Speed {
  private readonly clock: () => number;
  private stretches: readonly Stretch[] = [];
  private active = 0;
  private begun = 0;
  private bytes: number | null = null;

  /** @param clock milliseconds. */
  constructor(clock: () => number = () => performance.now()) {
    this.clock = clock;
  }

  /**
   * Something is to come from now on, until the function that it returns is told how many bytes have: null where there
   * were none to come, which says nothing of how fast they are.
   */
  begin(): (bytes: number | null) => void {
    if (this.active === 0) {
      this.begun = this.clock();
      this.bytes = null;
    }
    this.active += 1;
    return (bytes) => {
      this.active -= 1;
      if (bytes !== null) this.bytes = (this.bytes ?? 0) + bytes;
      if (this.active > 0 || this.bytes === null) return;
      const ended = this.clock();
      const last = { bytes: this.bytes, ms: ended - this.begun, ended };
      this.stretches = [...this.stretches, last].slice(-STRETCHES);
    };
  }

  /** Bytes in a millisecond; null where nothing has come for long. */
  get bytesPerMs(): number | null {
    const since = this.clock() - STALE_MS;
    const recent = this.stretches.filter(({ ended }) => ended >= since);
    const ms = recent.reduce((sum, one) => sum + one.ms, 0);
    return ms < LEAST_MS ? null : recent.reduce((sum, one) => sum + one.bytes, 0) / ms;
  }
}

/** Of all that this thread fetches, by where it comes from. */
export const speeds = { network: new Speed(), store: new Speed() } as const;
