/**
 * What the device is given next, and what comes of it: chunks of prompts between bursts of tokens.
 *
 * Work is handed over before the work ahead of it has been read: while nothing changes, a burst goes
 * on from the device's own state.
 */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { pagedState, pagesFor } from "../format/state.ts";
import { areRows, Batch, type Masks, RESULTS, type Rows } from "./batch.ts";
import { misled } from "./constraint.ts";
import type { Draft, Drafting } from "./drafts/drafting.ts";
import { notFinite } from "./faults.ts";
import { effortOf, Flights, stepOf, type Work } from "./flights.ts";
import { takeTokens, takeVerified } from "./landing.ts";
import { LIKELY } from "./logprobs.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Pace } from "./pace.ts";
import type { Room } from "./room.ts";
import type { Need, Schedule } from "./schedule.ts";
import type { Sequence } from "./sequence.ts";

type Read = ReadonlyMap<string, Elements>;

/** What of an engine it feeds from. */
export interface Source {
  readonly schedule: Schedule;
  readonly room: Room;
  readonly metrics: Metrics;
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
  /** Null where tokens are not guessed. */
  private readonly drafting: Drafting | null;
  private program: LoadedProgram;
  private batch: Batch;
  /** What the device's step buffers are about; null where that is no burst. */
  private rows: Rows | null = null;
  private chunkNext = true;
  private landed = Number.NEGATIVE_INFINITY;

  /** @throws EdgewiseError `bundle.eos`, and what writing to the program throws. */
  constructor(
    program: LoadedProgram,
    pace: Pace,
    source: Source,
    drafting: Drafting | null = null,
  ) {
    this.program = program;
    this.pace = pace;
    this.source = source;
    this.drafting = drafting;
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

  /** Tokens that were guessed, and those that were right, as `EngineStats` has them. */
  get draftStats() {
    const { proposed = 0, accepted = 0 } = this.drafting ?? {};
    return { draftTokens: proposed, draftAcceptedTokens: accepted };
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
    const { chunk, drafts, rows, steps, submitted } = work;
    const now = this.source.clock();
    const ms = now - Math.max(submitted, this.landed);
    this.landed = now;
    this.pace.took(effortOf(work), now);
    this.source.metrics.step(stepOf(work, now - ms, ms, this.batch.rows), () =>
      this.source.schedule.now(),
    );
    if (chunk) {
      chunk.sequence.written = Math.max(chunk.sequence.written, chunk.end);
      chunk.sequence.prefillMs += ms;
      if (chunk.end === chunk.sequence.kvLen) chunk.sequence.wasRead();
    }
    if (!rows) return;
    if (!chunk) {
      const size = drafts ? rows.sequences.length : steps;
      this.drafting?.took(drafts ? "checks" : "plain", size, ms);
    }
    const results = this.batch.results(read, rows, steps);
    const { batch, drafting } = this;
    const landed = { batch, read, results, ms };
    const all = [...new Set(rows.sequences)];
    const lengths = () => all.reduce((sum, { tokens }) => sum + tokens.length, 0);
    const before = lengths();
    const spoiled = drafts
      ? takeVerified(drafts, landed, (draft, right) => drafting?.observe(draft, right))
      : takeTokens(work, rows, landed);
    this.given += lengths() - before;
    // Nothing is handed over meanwhile, so that nobody else is given these pages.
    for (const sequence of spoiled) {
      const count = sequence.prompt.length + sequence.tokens.length;
      sequence.fail(await notFinite(this.program, this.rowsOf(sequence, count), count));
    }
  }

  /** The pages that the first `tokens` of a sequence are in, a row for each state group. */
  private rowsOf({ holding }: Sequence, tokens: number): readonly (readonly number[])[] {
    const count = pagesFor(tokens, pagedState(this.program.manifest).pageTokens);
    return holding.rows.map((row) => row.slice(0, count));
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
      const sampled = this.draw(batch.plan("sample", { b: 1 }), 1, [sequence]);
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
    if (this.drafting && waiting.length === 0 && !schedule.prefilling) {
      if (this.flights.unseen && this.drafting.hopes(running)) return false;
      const drafts = this.flights.unseen ? [] : this.drafting.drafts(running);
      if (drafts.length > 0 && this.verify(drafts)) return true;
    }
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
    const done = going ? this.goOn(plan, steps, reach) : this.decode(running, plan, steps, reach);
    for (const sequence of running) {
      sequence.ahead += steps;
      sequence.bursts += 1;
    }
    this.flights.add(done, { chunk: null, rows: this.rows, steps, submitted: clock() });
    // The next tokens may be drawn in another way, and those after one of these once more.
    if (running.some((sequence) => sequence.watched)) this.rewrite();
    return true;
  }

  /** Draw what follows drafts, in all places at once, and a token of each sequence without one; false without pages. */
  private verify(drafts: readonly Draft[]): boolean {
    const { batch, program } = this;
    const { schedule, room, clock } = this.source;
    const drafted = new Set(drafts.map(({ sequence }) => sequence));
    const plain = schedule.running.filter((one) => !drafted.has(one) && one.remaining > 0);
    const needs = drafts.map(({ sequence, tokens }): Need => {
      return [sequence, sequence.kvLen + 1 + tokens.length];
    });
    if (!room.has([...needs, ...plain.map((one): Need => [one, one.kvLen + 1])])) return false;
    batch.verify(drafts);
    const n = drafts.reduce((sum, { tokens }) => sum + 1 + tokens.length, 0);
    const computed = program.run([
      batch.plan("embed", { n }),
      batch.plan("prefill", { n, b: drafts.length }),
      batch.plan("logits", { r: n }),
    ]);
    const rows = batch.verified(drafts);
    const sampled = this.draw(batch.plan("sample", { b: n }), 1, rows.sequences);
    const done = Promise.all([sampled, computed]).then(([read]) => read);
    for (const { sequence, tokens } of drafts) sequence.ahead += 1 + tokens.length;
    this.flights.add(done, { chunk: null, drafts, rows, steps: 1, submitted: clock() });
    if (plain.length > 0) this.step(plain);
    this.rewrite();
    return true;
  }

  /** Decode one token for some of those that run. */
  private step(sequences: readonly Sequence[]): void {
    const longest = Math.max(...sequences.map(({ kvLen }) => kvLen));
    const plan = this.batch.plan("decode", { b: sequences.length, t: longest + 1 });
    const done = this.decode(sequences, plan, 1, longest + 1);
    for (const sequence of sequences) sequence.ahead += 1;
    const { clock } = this.source;
    this.flights.add(done, { chunk: null, rows: this.rows, steps: 1, submitted: clock() });
  }

  /** Go on with the burst before. */
  private goOn(plan: string, steps: number, reach: number): Promise<Read> {
    if (this.rows) this.batch.goOn(this.rows, reach);
    return this.draw(plan, steps, this.source.schedule.running);
  }

  /** Run what draws, read what came, and, where one of them wants to be told, how likely that was. */
  private draw(plan: string, steps: number, sequences: readonly Sequence[]): Promise<Read> {
    const { batch, program } = this;
    if (!sequences.some(({ params }) => params.logprobs)) {
      return program.run([plan], steps, RESULTS);
    }
    const drawn = program.run([plan], steps);
    batch.recount(sequences.length);
    const likely = batch.plan("logprobs", { b: sequences.length });
    const told = program.run([likely], 1, [...RESULTS, ...LIKELY]);
    return Promise.all([told, drawn]).then(([read]) => read);
  }

  /**
   * Begin a burst. Where it is one token, and the program can wait for the masks of those that have
   * one, they are made while the device computes the logits.
   */
  private decode(
    running: readonly Sequence[],
    plan: string,
    steps: number,
    reach: number,
  ): Promise<Read> {
    const { batch, program } = this;
    const b = running.length;
    this.rows = batch.decode(running, reach);
    if (steps > 1 || !running.some((one) => one.masked) || !batch.does("forward")) {
      batch.sampling(running, this.masks(running));
      return this.draw(plan, steps, running);
    }
    const computed = program.run([batch.plan("forward", { b, t: reach })]);
    batch.draw(running);
    batch.sampling(running, this.masks(running));
    const sampled = this.draw(batch.plan("sample", { b }), 1, running);
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
