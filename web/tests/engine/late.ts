/** A browser that is slow to tell: work is done in its time, and heard of when a timer looks. */

import type { Elements, LoadedProgram } from "../../device/base.ts";
import type { Timer } from "../../device/nudge.ts";
import type { ReferenceProgram } from "./reference.ts";
import type { RunRecord } from "./reference-bundle.ts";
import { turn } from "./support.ts";

/** Time that passes only where all else is waiting for it. */
export class VirtualTime {
  /** Milliseconds. */
  now = 0;
  private events: { readonly at: number; readonly call: () => void }[] = [];

  readonly clock = (): number => this.now;

  readonly timer: Timer = (ms, call) => {
    const event = { at: this.now + ms, call };
    this.events.push(event);
    return () => {
      this.events = this.events.filter((other) => other !== event);
    };
  };

  /** What a promise brings, once as much time has passed as that takes. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const done = () => {
      settled = true;
    };
    promise.then(done, done);
    while (true) {
      await turn();
      if (settled) return promise;
      this.pass();
    }
  }

  private pass(): void {
    const [next] = this.events.toSorted((a, b) => a.at - b.at);
    if (!next) throw new Error("nothing will ever happen again");
    this.events = this.events.filter((other) => other !== next);
    this.now = Math.max(this.now, next.at);
    next.call();
  }
}

export interface Lateness {
  /** Milliseconds from one look for finished work to the next. */
  readonly every: number;
  /** Whether anything submitted makes the browser look, too, as in Firefox. */
  readonly looks: boolean;
  /** Milliseconds that the device takes for a step of a burst, and for a row of a prompt. */
  readonly step: number;
  readonly row: number;
}

interface Waiting {
  readonly finished: number;
  readonly tell: () => void;
}

/** A program on such a browser. */
export class LateProgram implements LoadedProgram {
  /** Submissions of nothing. */
  nudges = 0;
  /** When something was heard of, each time once. */
  readonly looks = new Set<number>();
  private readonly inner: ReferenceProgram;
  /** Most pieces of work that were handed over and not heard of. */
  underWay = 0;
  private readonly virtual: VirtualTime;
  private readonly lateness: Lateness;
  private waiting: Waiting[] = [];
  /** When the device has done all it was given. */
  private finished = 0;

  constructor(inner: ReferenceProgram, virtual: VirtualTime, lateness: Lateness) {
    this.inner = inner;
    this.virtual = virtual;
    this.lateness = lateness;
  }

  prepare(plans: readonly string[]): Promise<void> {
    return this.inner.prepare(plans);
  }
  get manifest() {
    return this.inner.manifest;
  }
  get program() {
    return this.inner.program;
  }
  get plans() {
    return this.inner.plans;
  }
  get counters() {
    return this.inner.counters;
  }
  get lost() {
    return this.inner.lost;
  }
  get pages() {
    return this.inner.pages;
  }

  get pageBytes() {
    return this.inner.pageBytes;
  }

  shrink(pages: number) {
    return this.inner.shrink(pages);
  }

  readPage(page: number) {
    return this.inner.readPage(page);
  }

  writePage(page: number, data: Uint8Array<ArrayBuffer>): void {
    this.inner.writePage(page, data);
  }

  grow(pages: number): Promise<void> {
    return this.inner.grow(pages);
  }

  /** Bursts so far. */
  get bursts(): readonly RunRecord[] {
    return this.inner.runs.filter(({ plans }) => plans[0]?.startsWith("decode"));
  }

  /** Rows of the chunks so far. */
  get chunks(): readonly number[] {
    return this.inner.runs.filter(({ plans }) => plans[0] === "embed").map(({ rows }) => rows);
  }

  write(buffer: string, data: Elements, offsetElems?: number): void {
    this.inner.write(buffer, data, offsetElems);
  }

  async run(plans: readonly string[], k = 1, read: readonly string[] = []) {
    const results = this.inner.run(plans, k, read);
    const { step, row } = this.lateness;
    const rows = this.inner.runs.at(-1)?.rows ?? 0;
    const ms = plans[0] === "embed" ? rows * row : k * step;
    this.finished = Math.max(this.finished, this.virtual.now) + ms;
    this.submitted();
    if (read.length > 0) await this.heard();
    return results;
  }

  settled(): Promise<void> {
    return this.heard();
  }

  nudge(): void {
    this.nudges += 1;
    this.submitted();
  }

  read(buffer: string, first?: number, rows?: number): Promise<Elements> {
    return this.inner.read(buffer, first, rows);
  }
  upload(): void {}
  memory() {
    return this.inner.memory();
  }
  trace() {
    return this.inner.trace();
  }
  time(): Promise<null> {
    return this.inner.time();
  }
  close(): void {
    this.inner.close();
  }

  private heard(): Promise<void> {
    const { every } = this.lateness;
    const { finished } = this;
    return new Promise((tell) => {
      this.waiting.push({ finished, tell });
      this.underWay = Math.max(this.underWay, this.waiting.length);
      const next = Math.ceil(finished / every) * every;
      this.virtual.timer(next - this.virtual.now, () => this.look());
    });
  }

  private submitted(): void {
    if (this.lateness.looks) this.look();
  }

  private look(): void {
    const { now } = this.virtual;
    const done = this.waiting.filter(({ finished }) => finished <= now);
    this.waiting = this.waiting.filter(({ finished }) => finished > now);
    if (done.length > 0) this.looks.add(now);
    for (const { tell } of done) tell();
  }
}
