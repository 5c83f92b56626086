/**
 * Waits that may never end: a driver that hangs settles nothing, and says nothing.
 *
 * Time is counted in ticks, each a second however late it comes: what a computer sleeps, or a page that
 * nobody sees is not given, does not count.
 */

/** Milliseconds of a tick. */
const TICK_MS = 1000;

/** Seconds that compiling and allocating may take: some drivers compile for minutes. */
const MAKING = 300;
/** Seconds that work may take before any has been done, and at least and at most after that. */
const WORK = { first: 300, least: 60, most: 600 } as const;
/** Work may take this many times the longest that has been done. */
const TIMES = 20;

/**
 * `work` is what was submitted, `trial` what was submitted to be timed, which tells nothing of how long work
 * takes, `making` all else that a device is asked for.
 */
export type Waiting = "work" | "trial" | "making";

interface Wait {
  readonly kind: Waiting;
  ticks: number;
}

/** Looks after the waits of one device. */
export class Watchdog {
  private readonly waits = new Set<Wait>();
  private readonly late: (seconds: number) => void;
  private timer: ReturnType<typeof setInterval> | undefined;
  /** Seconds of the longest work that ended; null before the first. */
  private longest: number | null = null;

  /** @param late is called once, with how long a wait has taken that is given up. */
  constructor(late: (seconds: number) => void) {
    this.late = late;
  }

  /** Begin to wait; call what this returns when the wait has ended. */
  begin(kind: Waiting): () => void {
    const wait: Wait = { kind, ticks: 0 };
    this.waits.add(wait);
    this.timer ??= setInterval(() => this.tick(), TICK_MS);
    return () => {
      if (!this.waits.delete(wait) || kind !== "work") return;
      this.longest = Math.max(this.longest ?? 0, wait.ticks);
    };
  }

  /** Nothing is waited for any more. */
  end(): void {
    this.waits.clear();
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private tick(): void {
    if (this.waits.size === 0) this.end();
    for (const wait of this.waits) {
      wait.ticks += 1;
      if (wait.ticks > this.limit(wait.kind)) {
        this.end();
        this.late(wait.ticks);
        return;
      }
    }
  }

  private limit(kind: Waiting): number {
    if (kind !== "work") return MAKING;
    if (this.longest === null) return WORK.first;
    return Math.min(Math.max(TIMES * this.longest, WORK.least), WORK.most);
  }
}

/** `promise`, or what `late` throws where it has not settled for as long as making takes at most. */
export function answered<T>(promise: Promise<T>, late: (seconds: number) => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const watchdog = new Watchdog((seconds) => reject(late(seconds)));
    watchdog.begin("making");
    promise.then(resolve, reject).finally(() => watchdog.end());
  });
}
