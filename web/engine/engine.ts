/**
 * The generation loop: prompts in chunks, then bursts of tokens for all running sequences.
 *
 * A prompt enters when there is a free row and enough pages for it and all it may generate are free
 * or can still be made, so nothing runs out of memory on the way (`room.ts`). Prompts are prefilled
 * one after the other, their chunks between the bursts of those that run (`feed.ts`). The device does
 * things in the order they were given, so pages of a sequence that has ended may be given away while
 * work on them is under way: the new owner writes later. Stop strings are looked for in what a burst
 * has brought: tokens drawn after one are dropped, and nobody else sees the pages they lie in.
 */

import type { LoadedProgram } from "../device/base.ts";
import { nudging, systemTimer, type Timer } from "../device/nudge.ts";
import { EdgewiseError } from "../errors.ts";
import { pagedState } from "../format/state.ts";
import type { AtRest, Memory } from "./at-rest.ts";
import { checkBurst, checkRequest } from "./check.ts";
import { Feed } from "./feed.ts";
import { effortOf } from "./flights.ts";
import { Pace } from "./pace.ts";
import { Room } from "./room.ts";
import { Schedule } from "./schedule.ts";
import { type Request, Sequence, type Streaming } from "./sequence.ts";

/** Rows of a chunk where a device has been lost again and again. */
const GENTLE_CHUNK = 16;

export type { Request } from "./sequence.ts";

export interface EngineOptions {
  /** Pages that the program may come to have; it begins with those that it was loaded with. */
  readonly pages: number;
  /** Most tokens of a sequence. */
  readonly context: number;
  /** Milliseconds. */
  readonly clock?: () => number;
  readonly timer?: Timer;
  /** Most tokens of a burst, 1 to 64, however long it takes; by default as many as time allows. */
  readonly maxBurst?: number;
  /** Rows of the first chunk of a prompt. */
  readonly firstChunk?: number;
  /** Who keeps pages that outlive the program's memory, which are of this program. */
  readonly atRest?: (timer: Timer, memory: () => Memory | null) => AtRest;
  /** Hears that there is memory for conversations of so many tokens only. */
  readonly onContext?: (tokens: number) => void;
}

/** A generation under way: its text in pieces, what it came to, and a way to end it. */
export type Running = Pick<Sequence, "pieces" | "completion" | "cancel">;

export class GenerationEngine {
  private readonly longest: number;
  private readonly tokenizer: Streaming;
  private readonly clock: () => number;
  private readonly timer: Timer;
  private readonly schedule: Schedule;
  private readonly room: Room;
  private readonly feed: Feed;
  private program: LoadedProgram;
  /** Null where nothing is kept, or not what this program computes. */
  private atRest: AtRest | null;
  private driving = false;
  /** Why nothing can run for now: a lost device. */
  private lost: EdgewiseError | null = null;
  /** Why nothing will ever run again. */
  private closed: EdgewiseError | null = null;

  /** @throws EdgewiseError `bundle.eos`, `unsupported.state`, and what writing to the program throws. */
  constructor(program: LoadedProgram, tokenizer: Streaming, options: EngineOptions) {
    const { pages, context, clock = () => performance.now(), timer = systemTimer } = options;
    const { maxBurst, firstChunk } = options;
    const { model } = program.manifest;
    const { pageTokens } = pagedState(program.manifest);
    this.longest = Math.min(context, model.context);
    this.tokenizer = tokenizer;
    this.clock = clock;
    this.timer = timer;
    if (maxBurst !== undefined) checkBurst(maxBurst);
    this.schedule = new Schedule(program.pages, model.maxBatch, pageTokens, pages);
    this.room = new Room(program, this.schedule, {
      onFull: () => {
        this.feed.rewrite(); // the device's table says how long sequences may become
        options.onContext?.(this.context);
      },
      onError: (cause) => this.failed(cause),
    });
    const { schedule, room } = this;
    const pace = new Pace(model.prefillChunk, maxBurst ?? null, firstChunk);
    this.feed = new Feed(program, pace, { schedule, room, clock });
    this.program = program;
    this.atRest = options.atRest?.(timer, () => this.memory()) ?? null;
    this.watch(program);
  }

  /** Most tokens of a sequence. */
  get context(): number {
    return Math.min(this.longest, this.schedule.mostTokens);
  }

  /**
   * Begin a generation. It waits for its turn, for as long as it takes.
   *
   * @throws EdgewiseError `input.empty`, `input.context`, `input.token`; `engine.busy` where too
   *   many wait already; `engine.closed` or what `fail` was given, after that.
   */
  submit(request: Request): Running {
    if (this.closed) throw this.closed;
    const { model } = this.program.manifest;
    checkRequest(request, model.vocab, this.context);
    this.schedule.checkRoom();
    const { tokenizer, context, clock } = this;
    const sequence = new Sequence(request, { tokenizer, eos: model.eos, context, clock });
    void this.begin(sequence);
    return sequence;
  }

  /** Pages, sequences and tokens found in pages, as `EngineStats` has them. */
  stats() {
    const { restored = 0, saved = 0 } = this.atRest ?? {};
    return { ...this.schedule.stats(), pagesRestored: restored, pagesSaved: saved };
  }

  /** Tokens that sequences have been given so far. */
  get delivered(): number {
    return this.feed.given;
  }

  /** Ask as little of the device at once as makes sense, from now on. */
  goGently(): void {
    const { prefillChunk } = this.program.manifest.model;
    this.feed.pace = new Pace(Math.min(GENTLE_CHUNK, prefillChunk), 1);
  }

  /**
   * Go on with a program whose memory is new, after the one before was lost: unfinished sequences
   * prefill their prompt and the tokens they have, and continue.
   */
  replaceProgram(program: LoadedProgram, pages = this.schedule.most): void {
    if (this.closed) return;
    this.suspend(new EdgewiseError("device.lost", "The program was replaced."));
    this.schedule.renew(program.pages, pages);
    this.room.forget(program);
    if (program.program.id !== this.program.program.id) this.atRest = null;
    this.program = program;
    try {
      this.feed.use(program);
      this.lost = null;
    } catch (cause) {
      const error = EdgewiseError.from(cause, "device.run", "The program cannot be used");
      if (error.code !== "device.lost") this.fail(error);
    }
    this.watch(program);
    void this.drive();
  }

  /** End everything with an error, for ever. */
  fail(error: EdgewiseError): void {
    this.closed ??= error;
    this.atRest?.busy();
    this.schedule.failAll(error);
    this.suspend(error);
  }

  /** End everything; the program is left to whoever loaded it. */
  close(): void {
    this.fail(new EdgewiseError("engine.closed", "The engine has been closed.", "Load it again."));
  }

  /** What is inconsistent about the memory, as sentences; empty where all is sound. */
  check(): string[] {
    return this.schedule.check();
  }

  private watch(program: LoadedProgram): void {
    program.lost.then((error) => {
      if (program === this.program) this.suspend(error);
    });
  }

  /** Let a sequence wait for its turn, once what is kept of its prompt elsewhere is in pages. */
  private async begin(sequence: Sequence): Promise<void> {
    const { schedule, atRest } = this;
    if (atRest && !this.lost) {
      schedule.restoring.add(sequence);
      await atRest.restore(sequence.history(sequence.kvLen), sequence.kvLen - 1);
      schedule.restoring.delete(sequence);
    }
    schedule.waiting.push(sequence);
    void this.drive();
  }

  private memory(): Memory | null {
    if (this.lost || this.closed) return null;
    const { program, schedule, room } = this;
    return { program, prefixes: schedule.memory, more: (pages: number) => room.more(pages) };
  }

  private async drive(): Promise<void> {
    if (this.driving) return;
    this.driving = true;
    this.atRest?.busy();
    try {
      // Nothing is awaited after the last look for work: a request that comes then begins anew.
      while (!this.lost && !this.closed && this.submitAll()) await this.takeIn();
    } catch (cause) {
      // Not the device's fault: whoever waits must hear of it all the same.
      this.fail(EdgewiseError.from(cause, "engine.failed", "The engine has an error"));
    }
    this.driving = false;
    if (!this.lost && !this.closed) this.atRest?.idle();
  }

  /** Hand over what can be; false where nothing is under way then and nothing waits. */
  private submitAll(): boolean {
    try {
      while (this.feed.next()) {}
    } catch (cause) {
      this.failed(cause);
      return true;
    }
    return this.feed.flights.count > 0 || this.room.growing !== null;
  }

  /** Take in the oldest that is under way, or wait for pages where nothing else is. */
  private async takeIn(): Promise<void> {
    const { feed } = this;
    const stopNudging = this.nudge();
    try {
      if (feed.flights.count === 0) await this.room.growing;
      const landed = await feed.flights.next();
      if (landed) await feed.land(landed.work, landed.read);
    } catch (cause) {
      this.failed(cause);
    } finally {
      stopNudging();
    }
  }

  /** See to it that the oldest is heard of soon once it should be done, where that takes some doing. */
  private nudge(): () => void {
    const { program } = this;
    const { flights, pace } = this.feed;
    const { first } = flights;
    if (!first || !pace.nudges) return () => {};
    const ms = pace.due(effortOf(first), this.clock());
    return nudging(() => program.nudge(), ms, this.timer);
  }

  /** End what runs, or keep it for the next program where the device is lost. */
  private failed(cause: unknown): void {
    const error = EdgewiseError.from(cause, "device.run", "The device could not do its work");
    if (error.code === "device.lost") {
      this.suspend(error);
    } else {
      this.feed.forget();
      this.schedule.fail(error);
    }
  }

  /** Forget the device: what is unfinished waits for the next one. */
  private suspend(error: EdgewiseError): void {
    this.lost = error;
    this.feed.forget();
    this.room.forget();
    this.schedule.interrupt();
  }
}
