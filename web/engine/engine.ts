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
import { footprintOf } from "../format/state.ts";
import type { AtRest, Memory } from "./at-rest.ts";
import { checkBurst, checkRequest } from "./check.ts";
import type { Drafting } from "./drafts/drafting.ts";
import { Feed } from "./feed.ts";
import { effortOf } from "./flights.ts";
import { checkLogprobs, prepareLogprobs } from "./logprobs.ts";
import { Metrics, type MetricsSnapshot } from "./metrics/metrics.ts";
import type { ChromeTrace, Trace } from "./metrics/trace.ts";
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
  /** Makes who guesses tokens for the model to verify, so many rows of logits a step at most. */
  readonly drafter?: (rows: number) => Drafting;
  /** Where steps and requests are recorded. */
  readonly trace?: Trace;
  /** Rows of the first chunk of a prompt. */
  readonly firstChunk?: number;
  /** Who keeps pages that outlive the program's memory, which are of this program. */
  readonly atRest?: (timer: Timer, memory: () => Memory | null) => AtRest;
  /** Hears that there is memory for conversations of so many tokens only. */
  readonly onContext?: (tokens: number) => void;
}

/** A generation under way: its text in pieces, what it came to, and a way to end it. */
export type Running = Pick<Sequence, "pieces" | "completion" | "cancel" | "idsFrom" | "logprobs">;

export class GenerationEngine {
  private readonly longest: number;
  private readonly tokenizer: Streaming;
  private readonly clock: () => number;
  private readonly timer: Timer;
  private readonly counted: Metrics;
  private readonly trace: Trace | null;
  private readonly schedule: Schedule;
  private readonly room: Room;
  private readonly feed: Feed;
  private program: LoadedProgram;
  /** Null where nothing is kept, or not what this program computes. */
  private atRest: AtRest | null;
  private driving = false;
  /** Whether a request has asked for log-probabilities: a program that takes the place of this has to be ready. */
  private tellsLogprobs = false;
  /** Programs that are. */
  private readonly telling = new WeakSet<LoadedProgram>();
  /** Why nothing can run for now: a lost device. */
  private lost: EdgewiseError | null = null;
  /** Why nothing will ever run again. */
  private closed: EdgewiseError | null = null;

  /** @throws EdgewiseError `bundle.eos`, `unsupported.state`, and what writing to the program throws. */
  constructor(program: LoadedProgram, tokenizer: Streaming, options: EngineOptions) {
    const { pages, context, clock = () => performance.now(), timer = systemTimer } = options;
    const { maxBurst, firstChunk, drafter } = options;
    const { model } = program.manifest;
    this.longest = Math.min(context, model.context);
    this.tokenizer = tokenizer;
    this.clock = clock;
    this.timer = timer;
    if (maxBurst !== undefined) checkBurst(maxBurst);
    this.trace = options.trace ?? null;
    this.counted = new Metrics(() => clock() / 1000, this.trace);
    const footprint = footprintOf(program.manifest);
    this.schedule = new Schedule(program.pages, model.maxBatch, footprint, this.longest, pages);
    this.room = new Room(program, this.schedule, {
      onFull: () => {
        this.feed.rewrite(); // the device's table says how long sequences may become
        options.onContext?.(this.context);
      },
      onError: (cause) => this.failed(cause),
    });
    const { schedule, room, counted: metrics } = this;
    const pace = new Pace(model.prefillChunk, maxBurst ?? null, firstChunk);
    const drafting = drafter?.(Math.min(model.maxBatch, model.prefillChunk)) ?? null;
    this.feed = new Feed(program, pace, { schedule, room, clock, metrics }, drafting);
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
    return this.choices(request, 1)[0];
  }

  /**
   * Begin `n` generations of one prompt, which is read once. Each has random numbers of its own; the first is what it
   * would be alone. Throws as `submit`.
   */
  choices(request: Request, n: number): readonly [Running, ...Running[]] {
    if (this.closed) throw this.closed;
    const { model } = this.program.manifest;
    checkRequest(request, model.vocab, this.context);
    if (request.params.logprobs) checkLogprobs(this.program);
    this.schedule.checkRoom(n);
    const { tokenizer, context, clock } = this;
    const options = { tokenizer, eos: model.eos, context, clock };
    const leader = new Sequence(request, options);
    const others = Array.from(
      { length: n - 1 },
      (_, at) => new Sequence(request, { ...options, index: at + 1, leader }),
    );
    for (const one of [leader, ...others]) one.note(this.counted.queued(one.prompt.length));
    void this.begin([leader, ...others]);
    return [leader, ...others];
  }

  /** Pages, sequences and tokens found in pages, as `EngineStats` has them. */
  stats() {
    const { restored = 0, saved = 0, spilled = 0, tokens } = this.atRest ?? {};
    return {
      ...this.schedule.stats(),
      prefixBundleTokens: tokens?.shipped ?? 0,
      pagesRestored: restored,
      pagesSaved: saved,
      ...this.feed.draftStats,
      pagesSpilled: spilled,
      pagesFailure: this.atRest?.failure?.message ?? null,
    };
  }

  /** What is kept of pages is going to be removed: those in memory are neither saved nor found any more. */
  forgetPages(): void {
    this.atRest?.forget();
  }

  /** Whether somebody sees what it is for: where nobody does it gives memory back as soon as there is nothing to do. */
  seen(visible: boolean): void {
    this.atRest?.quiet.hide(!visible);
  }

  /** What was counted so far, by the names of `FAMILIES`. */
  metrics(): MetricsSnapshot {
    const stats = this.stats();
    const { prefixHitTokens: hits, pagesCached } = stats;
    const bundle = Math.min(stats.prefixBundleTokens, hits);
    const disk = Math.min(this.atRest?.tokens.restored ?? 0, hits - bundle);
    return this.counted.snapshot({
      ...this.schedule.now(),
      ...stats,
      queriedTokens: stats.prefixQueriedTokens,
      hitTokens: { device: hits - bundle - disk, disk, bundle },
      cachedBytes: pagesCached * this.program.pageBytes,
    });
  }

  /**
   * What was done and when, for https://ui.perfetto.dev.
   *
   * @throws EdgewiseError `input.trace` where the engine was made without one.
   */
  traced(): ChromeTrace {
    if (this.trace) return this.trace.toJson();
    throw new EdgewiseError(
      "input.trace",
      "This engine records no trace.",
      "Load the model with trace: true.",
    );
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

  /** What `replaceProgram` is to be called after: all that requests have asked for is compiled. */
  async prepare(program: LoadedProgram): Promise<void> {
    if (!this.tellsLogprobs) return;
    await prepareLogprobs(program);
    this.telling.add(program);
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
    this.atRest?.quiet.busy();
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

  /** Let the choices of a prompt wait for their turn, once what is kept of it elsewhere is in pages. */
  private async begin(choices: readonly [Sequence, ...Sequence[]]): Promise<void> {
    const { schedule, atRest } = this;
    const [{ kvLen, params }] = choices;
    const restores = atRest && !this.lost;
    atRest?.quiet.busy();
    if (restores || params.logprobs) {
      for (const one of choices) schedule.restoring.add(one);
      if (restores) await atRest.restore(choices[0].history(kvLen), kvLen - 1);
      if (params.logprobs) await this.prepareLogprobs(choices);
      for (const one of choices) schedule.restoring.delete(one);
    }
    schedule.enqueue(choices);
    void this.drive();
  }

  private async prepareLogprobs(choices: readonly Sequence[]): Promise<void> {
    this.tellsLogprobs = true;
    const { program } = this;
    try {
      await prepareLogprobs(program);
      this.telling.add(program);
    } catch (cause) {
      const error = EdgewiseError.from(cause, "device.run", "The program cannot be used");
      // Whoever replaces a program that is gone prepares the next one.
      const gone = error.code === "device.lost" || error.code === "device.closed";
      if (gone && program === this.program) this.suspend(error);
      if (!gone) for (const one of choices) one.fail(error);
    }
  }

  /** Those who asked for log-probabilities after the program that runs now was prepared without them. */
  private get untold(): readonly Sequence[] {
    if (!this.tellsLogprobs || this.telling.has(this.program)) return [];
    const all = [...this.schedule.holders, ...this.schedule.waiting];
    return all.filter(({ ended, params }) => params.logprobs && !ended);
  }

  private memory(): Memory | null {
    if (this.lost || this.closed) return null;
    const { program, schedule, room, feed } = this;
    const more = (pages: number) => room.more(pages);
    const less = () => room.less();
    const { memory: prefixes } = schedule;
    const { prefillSpeed } = feed.pace;
    const waiting = () =>
      [...schedule.restoring, ...schedule.waiting].map((one) => one.history(one.kvLen));
    return { program, prefixes, more, less, waiting, prefillSpeed };
  }

  private async drive(): Promise<void> {
    if (this.driving) return;
    this.driving = true;
    this.atRest?.quiet.busy();
    try {
      // Nothing is awaited after the last look for work: a request that comes then begins anew.
      while (!this.lost && !this.closed) {
        const { untold } = this;
        if (untold.length > 0) await this.prepareLogprobs(untold);
        else if (this.submitAll()) await this.takeIn();
        else break;
      }
    } catch (cause) {
      // Not the device's fault: whoever waits must hear of it all the same.
      this.fail(EdgewiseError.from(cause, "engine.failed", "The engine has an error"));
    }
    this.driving = false;
    // Those for whom pages are restored are at work, too.
    const quiet = this.schedule.restoring.size === 0;
    if (quiet && !this.lost && !this.closed) this.atRest?.quiet.idle();
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
