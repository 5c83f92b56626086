/**
 * When an engine has nothing to do: what is done then, one piece after the other, and told to stop when there is
 * something again.
 */

import type { Timer } from "../device/nudge.ts";

/** Done in quiet times, as long as `quiet()`. Never rejects. */
export type QuietWork = (quiet: () => boolean) => Promise<void>;

export interface Quieting {
  /** Milliseconds without work after which it is begun; null for never. */
  readonly after: number | null;
  readonly work: QuietWork;
}

export class Quiet {
  private readonly timer: Timer;
  private readonly works: readonly Quieting[];
  private readonly last: Quieting;
  private idling = false;
  private hidden = false;
  /** Ends what waits for quiet, and tells what has begun in it. */
  private disturb = () => {};
  private working: Promise<void> = Promise.resolve();

  /** @param last what is begun at once where nobody sees the page, unless never. */
  constructor(timer: Timer, works: readonly Quieting[], last: Quieting) {
    this.timer = timer;
    this.works = [...works, last];
    this.last = last;
  }

  /** There is nothing to do for now. */
  idle(): void {
    this.idling = true;
    this.begin();
  }

  /** There is something to do. */
  busy(): void {
    this.idling = false;
    this.disturb();
  }

  /** Nobody sees the page, or somebody does again: what has begun goes on then. */
  hide(hidden: boolean): void {
    const newly = hidden && !this.hidden;
    this.hidden = hidden;
    if (newly && this.idling) this.begin();
  }

  private begin(): void {
    this.disturb();
    let quiet = true;
    const due = this.works.map((one) => {
      const { after } = one;
      const ms = after !== null && one === this.last && this.hidden ? 0 : after;
      if (ms === null) return () => {};
      return this.timer(ms, () => {
        this.working = this.working.then(() => one.work(() => quiet));
      });
    });
    this.disturb = () => {
      quiet = false;
      for (const cancel of due) cancel();
    };
  }
}
