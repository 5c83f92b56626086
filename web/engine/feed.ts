/**
 * What the device is given next, and what comes of it: chunks of prompts between bursts of tokens.
 *
 * Work is handed over before the work ahead of it has been read: while nothing changes, a burst goes
 * on from the device's own state.
 */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { pagedState, pagesFor } from "../format/state.ts";
import { areRows, Batch, type Masks, RESULTS, type Rows, wrongOutput } from "./batch.ts";
import { misled } from "./constraint.ts";
import { notFinite } from "./faults.ts";
import { effortOf, Flights, type Work } from "./flights.ts";
import type { Pace } from "./pace.ts";
import type { Room } from "./room.ts";
import type { Schedule } from "./schedule.ts";
import type { Sequence } from "./sequence.ts";

type Read = ReadonlyMap<string, Elements>;

/** What of an engine it feeds from. */
export interface Source {
  readonly schedule: Schedule;
  readonly room: Room;
  /** Milliseconds. */
  readonly clock: () => number;
}

export class Feed {
  /** How much is asked of the device at once. */
  pace: Pace;
  readonly flights = new Flights();
  /** Tokens that sequences have been given. */
  given = 0;
  private readonly source: Source;
  private program: LoadedProgram;
  private batch: Batch;
  /** What the device's step buffers are about; null where that is no burst. */
  private rows: Rows | null = null;
  private chunkNext = true;
  private landed = Number.NEGATIVE_INFINITY;

  /** @throws EdgewiseError `bundle.eos`, and what writing to the program throws. */
  constructor(program: LoadedProgram, pace: Pace, source: Source) {
    this.program = program;
    this.pace = pace;
    this.source = source;
    this.batch = new Batch(program);
  }

  /** Go on with another program, whose memory is new. Throws as the constructor does. */
  use(program: LoadedProgram): void {
    this.program = program;
    this.batch = new Batch(program);
  }

  /** What the device's tables say of sequences is no longer so: they are written anew. */
  rewrite(): void {
    this.rows = null;
  }

  /** Nobody wants to know what comes of what is under way. */
  forget(): void {
    this.flights.forget();
    this.rewrite();
  }

  /** Hand one more piece of work to the device; false where there is none now. */
  next(): boolean {
    const { schedule, room } = this.source;
    schedule.retireEnded();
    const { prefilling, waiting, running } = schedule;
    const chunks = (prefilling || waiting.length > 0) && (this.chunkNext || running.length === 0);
    if (this.flights.count >= this.pace.depth(chunks ? "chunk" : "burst")) return false;
    schedule.admit();
    room.begin();
    if (schedule.prefilling && chunks && this.chunk(schedule.prefilling)) {
      this.chunkNext = false;
      return true;
    }
    const known = schedule.running.find((sequence) => sequence.known);
    if (known ? this.chunk(known) : this.burst()) {
      this.chunkNext = true;
      return true;
    }
    if (!room.short || this.flights.count > 0) return false;
    room.makeDo();
    this.rewrite();
    return true;
  }

  /**
   * Take in what the device has done. Whoever has no next token, its logits not being finite, ends
   * with an error.
   *
   * @throws EdgewiseError `device.output`, and what reading throws.
   */
  async land(work: Work, read: ReadonlyMap<string, Elements>): Promise<void> {
    const { chunk, rows, steps, submitted } = work;
    const now = this.source.clock();
    const ms = now - Math.max(submitted, this.landed);
    this.landed = now;
    this.pace.took(effortOf(work), now);
    if (chunk) {
      chunk.sequence.written = Math.max(chunk.sequence.written, chunk.end);
      chunk.sequence.prefillMs += ms;
      if (chunk.end === chunk.sequence.kvLen) chunk.sequence.wasRead();
    }
    if (!rows) return;
    const results = this.batch.results(read, rows, steps);
    const spoiled: Sequence[] = [];
    for (const [row, sequence] of rows.sequences.entries()) {
      const result = results[row];
      if (!result || sequence.ended) continue;
      if (!chunk) sequence.decodeMs += ms;
      sequence.ahead -= steps;
      const before = sequence.tokens.length;
      const again = sequence.accept(result.tokens, result.tokens.length + Number(!result.sound));
      this.given += sequence.tokens.length - before;
      sequence.written = sequence.kvLen;
      sequence.force();
      if (sequence.ended || again) continue;
      if (!result.stopped && result.tokens.length === steps) continue;
      if (result.sound) {
        throw wrongOutput(`it ended a sequence after ${sequence.tokens.length} tokens, too early`);
      }
      spoiled.push(sequence);
    }
    // Nothing is handed over meanwhile, so that nobody else is given these pages.
    for (const sequence of spoiled) {
      const count = sequence.prompt.length + sequence.tokens.length;
      sequence.fail(await notFinite(this.program, this.pagesOf(sequence, count), count));
    }
  }

  /** The pages that the first `tokens` of a sequence are in. */
  private pagesOf({ pages }: Sequence, tokens: number): readonly number[] {
    return pages.slice(0, pagesFor(tokens, pagedState(this.program.manifest).pageTokens));
  }

  /** Read the next rows of a prompt; false where pages are missing for them. */
  private chunk(sequence: Sequence): boolean {
    const { batch, program } = this;
    const { schedule, room, clock } = this.source;
    const start = sequence.sent;
    if (start === sequence.read) return false; // all of it is under way
    const end = Math.min(start + this.pace.chunk, sequence.read);
    if (!room.has([[sequence, end]])) return false;
    const rows = end - start;
    const last = end === sequence.read;
    const begins = sequence.tokens.length === 0 && !sequence.wantsNone;
    const first = last && (begins || sequence.known);
    batch.prefill(sequence, start, sequence.history(end).slice(start), first);
    const plans = [batch.plan("embed", { n: rows }), batch.plan("prefill", { n: rows, b: 1 })];
    if (first) plans.push(batch.plan("logits", { r: 1 }));
    let done = program.run(plans);
    sequence.sent = end;
    this.rewrite();
    if (first) {
      this.rows = batch.firstToken(sequence, this.masks([sequence]));
      const sampled = program.run([batch.plan("sample", { b: 1 })], 1, RESULTS);
      done = Promise.all([sampled, done]).then(([read]) => read);
      sequence.ahead = 1;
      sequence.known = false;
    } else {
      done = Promise.all([done, program.settled()]).then(([read]) => read);
    }
    if (last && !sequence.wantsNone && sequence === schedule.prefilling) schedule.promote();
    const chunk = { sequence, end, rows };
    this.flights.add(done, { chunk, rows: this.rows, steps: 1, submitted: clock() });
    if (first && sequence.watched) this.rewrite();
    return true;
  }

  /** Decode a few tokens for every running sequence, unless what is under way must be seen first. */
  private burst(): boolean {
    const { batch, pace } = this;
    const { schedule, room, clock } = this.source;
    const { running, waiting } = schedule;
    const going = this.rows !== null && areRows(this.rows, running);
    if (running.length === 0 || (this.flights.unseen && !going)) return false;
    const left = running.map((sequence) => sequence.remaining - sequence.ahead);
    // Where others wait for a row, a burst ends with the first that gives up its own.
    const most = waiting.length > 0 ? Math.min(...left) : Math.max(...left);
    if (most <= 0) return false;
    const youngest = Math.min(...running.map((sequence) => sequence.bursts));
    const unseen = Math.min(...running.map((sequence) => sequence.unseen));
    const wanted = Math.min(pace.burst(youngest), most, unseen);
    const longest = Math.max(...running.map(({ kvLen, ahead }) => kvLen + ahead));
    const plan = batch.plan("decode", { b: running.length, t: longest + wanted });
    const steps = Math.min(wanted, batch.repeats(plan));
    if (!room.has(running.map((one) => [one, one.kvLen + one.ahead + steps]))) return false;
    const reach = longest + steps;
    const done = going ? this.goOn(plan, steps, reach) : this.decode(plan, steps, reach);
    for (const sequence of running) {
      sequence.ahead += steps;
      sequence.bursts += 1;
    }
    this.flights.add(done, { chunk: null, rows: this.rows, steps, submitted: clock() });
    // The next tokens may be drawn in another way, and those after one of these once more.
    if (running.some((sequence) => sequence.watched)) this.rewrite();
    return true;
  }

  /** Go on with the burst before. */
  private goOn(plan: string, steps: number, reach: number): Promise<Read> {
    if (this.rows) this.batch.goOn(this.rows, reach);
    return this.program.run([plan], steps, RESULTS);
  }

  /**
   * Begin a burst with all that run. Where it is one token, and the program can wait for the masks of those that have
   * one, they are made while the device computes the logits.
   */
  private decode(plan: string, steps: number, reach: number): Promise<Read> {
    const { batch, program } = this;
    const { running } = this.source.schedule;
    const b = running.length;
    this.rows = batch.decode(running, reach);
    if (steps > 1 || !running.some((one) => one.masked) || !batch.does("forward")) {
      batch.sampling(running, this.masks(running));
      return program.run([plan], steps, RESULTS);
    }
    const computed = program.run([batch.plan("forward", { b, t: reach })]);
    batch.draw(running);
    batch.sampling(running, this.masks(running));
    const sampled = program.run([batch.plan("sample", { b })], 1, RESULTS);
    return Promise.all([sampled, computed]).then(([read]) => read);
  }

  /** The masks of rows; who has none for an error ends with it. */
  private masks(sequences: readonly Sequence[]): Masks {
    return sequences.map((sequence) => {
      try {
        return sequence.mask(this.batch.words);
      } catch (cause) {
        sequence.fail(misled(cause));
        return null;
      }
    });
  }
}
