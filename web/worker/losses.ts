/** What to do about a device that is lost, from what came of it before. */

/**
 * `again` as it was; `gently` with little work at a time; with `other` programs that have not been
 * tried yet; `stop` and say so.
 */
export type Answer = "again" | "gently" | "other" | "stop";

/** What is known when a device is lost. */
export interface Loss {
  /** Tokens delivered since the session began. */
  readonly delivered: number;
  /** Whether anything was asked of the device. */
  readonly busy: boolean;
  /** Whether somebody saw the page: systems take devices from pages in the background. */
  readonly seen: boolean;
  /** Milliseconds. */
  readonly now: number;
  /** Whether there is a program that has not been tried. */
  readonly others: boolean;
}

/** A device that was idle is not lost by what it was asked to do, if it lasted so long, milliseconds. */
const SETTLED_MS = 60_000;

/** Losses of one session. One counts where nothing came of the device since it was made. */
export class Losses {
  /** All of them. */
  count = 0;
  private delivered = 0;
  private since: number;
  /** Those in a row that count. */
  fruitless = 0;

  /** @param now when the device was made, milliseconds. */
  constructor(now: number) {
    this.since = now;
  }

  /** A device is there again. */
  restored(now: number): void {
    this.since = now;
  }

  next({ delivered, busy, seen, now, others }: Loss): Answer {
    this.count += 1;
    const fruitful = delivered > this.delivered || (!busy && now - this.since >= SETTLED_MS);
    this.delivered = delivered;
    if (!seen) return "again";
    this.fruitless = fruitful ? 1 : this.fruitless + 1;
    if (this.fruitless === 1) return "again";
    if (this.fruitless === 2) return "gently";
    return others ? "other" : "stop";
  }
}
