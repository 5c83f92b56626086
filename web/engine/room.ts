/**
 * Pages for those that need them. A program begins with some and has more made as they come to be
 * missing, while steps go on: what is in pages stays. What is made so is given back once nothing lies in it.
 *
 * Nobody is admitted whose pages could not all be made. Where the device has no room for as many as
 * it was to have, all go on with those that there are: sequences become shorter, and the youngest
 * waits while too few are left for all.
 */

import type { LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import type { Need, Schedule } from "./schedule.ts";

/** Pages become so many times as many at once, if there is room: each time all are copied. */
const GROWTH = 1.5;

export interface RoomEvents {
  /** There is no room for more pages than there are. */
  readonly onFull: () => void;
  /** More pages could not be made for another reason. */
  readonly onError: (cause: unknown) => void;
}

export class Room {
  /** Resolves when the pages that are being made are there, or cannot be; null while none are. */
  growing: Promise<void> | null = null;
  /** Pages that were asked for and not given since `begin`. */
  private missing = 0;
  /** Pages that there were in the beginning: a program's memory never becomes smaller than what it was loaded with. */
  private first: number;
  /** What of `growing` gives pages back. */
  private shrinking: Promise<void> | null = null;
  /** Counts what was forgotten: what was begun before is of no interest. */
  private turn = 0;
  private program: LoadedProgram;
  private readonly schedule: Schedule;
  private readonly events: RoomEvents;

  constructor(program: LoadedProgram, schedule: Schedule, events: RoomEvents) {
    this.program = program;
    this.first = program.pages;
    this.schedule = schedule;
    this.events = events;
  }

  /** Whether somebody has asked for pages that are not there, and nobody makes. */
  get short(): boolean {
    return this.missing > 0 && this.growing === null;
  }

  /** Nobody has asked for pages yet. */
  begin(): void {
    this.missing = 0;
  }

  /**
   * Whether these have pages for so many tokens. More are made otherwise, if there may be more, unless what is under way
   * has to be heard of first.
   */
  has(needs: readonly Need[]): boolean {
    const { schedule } = this;
    if (schedule.outrun(needs)) return false;
    const missing = schedule.extend(needs);
    if (missing === 0) return true;
    this.missing += missing;
    if (schedule.pages < schedule.most) this.growing ??= this.grow(schedule.pages + missing);
    return false;
  }

  /** Have so many more pages made, if there may be more: resolves when they are there, or cannot be. */
  async more(pages: number): Promise<void> {
    const { schedule } = this;
    await this.shrinking;
    if (schedule.pages < schedule.most) this.growing ??= this.grow(schedule.pages + pages);
    await this.growing;
  }

  /** Give pages back that nothing is in, down to those of the beginning. Resolves when that is done; never rejects. */
  async less(): Promise<void> {
    if (this.growing) return;
    const pages = this.schedule.shrink(this.first);
    if (pages >= this.program.pages) return;
    this.shrinking = this.shrink(pages);
    this.growing = this.shrinking;
    await this.shrinking;
  }

  /** Let the youngest wait, or end the only one there is: its prompt alone is too long. */
  makeDo(): void {
    const { schedule } = this;
    if (schedule.setBack()) return;
    schedule.fail(
      new EdgewiseError(
        "device.memory",
        `The device has no room for more than ${schedule.pages} pages, too few for this prompt.`,
        "Close other tabs, or shorten the prompt.",
      ),
    );
  }

  /** Go on with another program, or with none for now: nobody waits for what is being made. */
  forget(program?: LoadedProgram): void {
    this.turn += 1;
    this.growing = null;
    this.shrinking = null;
    if (!program) return;
    this.program = program;
    this.first = program.pages;
  }

  private async shrink(pages: number): Promise<void> {
    const { program, events, turn } = this;
    const wanted = () => turn === this.turn;
    try {
      await fits(program.shrink(pages)); // where not even that is, more is held than is needed
    } catch (cause) {
      if (wanted()) events.onError(cause);
    } finally {
      if (wanted()) {
        this.growing = null;
        this.shrinking = null;
      }
    }
  }

  /** Have `least` pages made, or some more. Never rejects. */
  private async grow(least: number): Promise<void> {
    const { program, schedule, events, turn } = this;
    const roomy = Math.max(least, Math.ceil(schedule.pages * GROWTH));
    const sizes = new Set([roomy, least].map((pages) => Math.min(pages, schedule.most)));
    const wanted = () => turn === this.turn;
    try {
      let full = false;
      for (const pages of sizes) {
        full = !(await fits(program.grow(pages)));
        if (!full) break;
      }
      if (!wanted()) return;
      schedule.grow(program.pages);
      if (full) {
        schedule.cap();
        events.onFull();
      }
    } catch (cause) {
      if (wanted()) events.onError(cause);
    } finally {
      if (wanted()) this.growing = null;
    }
  }
}

/** Whether pages could be made; false where memory is full. */
async function fits(resizing: Promise<void>): Promise<boolean> {
  try {
    await resizing;
    return true;
  } catch (error) {
    if (error instanceof EdgewiseError && error.code === "device.memory") return false;
    throw error;
  }
}
