/**
 * How much to ask of the device at once, from how long it took so far.
 *
 * What can be measured is when work is heard of, and that may be long after it was done: Firefox looks
 * for finished work every 100 ms. So times are taken as a latency and a cost of each row or step.
 * Where bursts are over long before anybody hears of them they get longer, and more of them are under
 * way; chunks of prompts are judged by what they cost beside the latency.
 */

import { RING } from "../format/abi.ts";
import { Line } from "./fit.ts";

/** Tokens of a sequence that are decoded before the host looks at them, where it hears of them soon. */
export const MAX_BURST = 8;
/** A burst takes about so long at most, so that a reader sees text flow, milliseconds. */
const BURST_MS = 100;
const FIRST_CHUNK = 128;
const LEAST_CHUNK = 16;
/** Chunks of a prompt grow when they take less than this, and shrink when more than that. */
const CHUNK_MS = { grow: 60, shrink: 250 } as const;
/** Pieces of work handed to the device before the first of them is looked at: usually, and at most. */
const DEPTH = { usual: 2, most: 4 } as const;
/** Latencies below this are those of any browser, milliseconds. */
const LATE_MS = 20;
/** Bursts that have to be late until the browser is said to be. */
const ENOUGH = 8;
/** Work is heard of together with the last where it was handed over so many times as long ago. */
const TOGETHER = 8;
/** The part of the time that work should take before anybody is nudged. */
const MOSTLY = 0.75;
/** Measurements after which nudging has helped or never will. */
const TRIAL = 24;

export type Kind = "chunk" | "burst";

/** A piece of work: rows of a prompt, or steps of a burst, and when it was handed over. */
export interface Effort {
  readonly kind: Kind;
  readonly size: number;
  readonly submitted: number;
}

/** What was heard of at once, the last time: no kind where there were several. */
interface Heard {
  readonly kind: Kind | null;
  readonly size: number;
  readonly begun: number;
  readonly at: number;
}

const NEVER = Number.NEGATIVE_INFINITY;

export class Pace {
  private readonly mostRows: number;
  private readonly mostSteps: number | null;
  private readonly chunks = new Line();
  private readonly bursts = new Line();
  private rows: number;
  /** Whether a usual burst is over before anybody has heard of the one before it. */
  private late = false;
  private last: Heard = { kind: null, size: 0, begun: NEVER, at: NEVER };
  private nudging: "untried" | "tried" | "in vain" = "untried";

  /**
   * @param prefillChunk most rows of a step.
   * @param maxBurst most tokens of a burst, whatever time it takes; null for as many as time allows.
   * @param firstChunk rows of the first chunk.
   */
  constructor(prefillChunk: number, maxBurst: number | null, firstChunk = FIRST_CHUNK) {
    this.mostRows = prefillChunk;
    this.mostSteps = maxBurst;
    this.rows = Math.min(firstChunk, prefillChunk);
  }

  /** Rows of the next chunk of a prompt. */
  get chunk(): number {
    return this.rows;
  }

  /** Tokens of prompts in a second, of the quickest chunk of late; null before the first one. */
  get prefillSpeed(): number | null {
    return this.chunks.most > 0 ? 1000 / this.chunks.most : null;
  }

  /** Steps of a burst after so many: they grow from one, so that the first tokens come at once. */
  burst(before: number): number {
    return Math.min(this.longest, 2 ** Math.min(before, 16));
  }

  /**
   * How many pieces of work may be under way when one of a kind is handed over: enough that the device
   * has work while nobody has heard yet of what it has done.
   */
  depth(kind: Kind): number {
    if (!this.late) return DEPTH.usual;
    const [line, size] = kind === "chunk" ? [this.chunks, this.rows] : [this.bursts, this.longest];
    const { latency } = this.bursts;
    const ms = line.cost * size + Math.max(line.latency - latency, 0);
    return Math.max(DEPTH.usual, Math.min(1 + Math.ceil(latency / ms), DEPTH.most));
  }

  /** Whether to make the browser look for work that should be done. */
  get nudges(): boolean {
    return this.nudging === "tried";
  }

  /** Milliseconds from `now` until most of the time has passed that the work should take. */
  due({ kind, size, submitted }: Effort, now: number): number {
    const { told, cost } = this.lines[kind];
    const most = told ? MOSTLY * cost * size : 0;
    return Math.max(0, this.begun(submitted) + most - now);
  }

  /** Take in that work was heard of, in the order in which it was handed over. */
  took({ kind, size, submitted }: Effort, now: number): void {
    const { last } = this;
    const together = TOGETHER * (now - last.at) < now - submitted;
    if (!together) this.last = { kind, size, begun: this.begun(submitted), at: now };
    else if (kind === last.kind) this.last = { ...last, size: last.size + size, at: now };
    else this.last = { kind: null, size: 0, begun: now, at: now };
    const heard = this.last;
    if (heard.kind === null) return;
    const ms = now - heard.begun;
    this.lines[heard.kind].add(heard.size, ms);
    if (heard.kind === "chunk") this.resize(heard.size, ms - this.latency);
    else this.judge();
  }

  private get lines(): Readonly<Record<Kind, Line>> {
    return { chunk: this.chunks, burst: this.bursts };
  }

  /** When the device began with it, at the latest; it may have been at it before others were heard of. */
  private begun(submitted: number): number {
    return Math.max(submitted, this.last.at);
  }

  /** Milliseconds until work is heard of, for sure; chunks have costs of their own in it. */
  private get latency(): number {
    return this.bursts.told ? this.bursts.sure : this.chunks.sure;
  }

  /** Most steps of a burst. */
  private get longest(): number {
    if (this.mostSteps !== null) return this.mostSteps;
    const { most, latency } = this.bursts;
    // A reader has to wait for the latency anyhow.
    const steps = this.late
      ? Math.min(RING, Math.max(BURST_MS, latency) / most)
      : Math.min(MAX_BURST, BURST_MS / most);
    return Math.max(1, Math.floor(steps));
  }

  /** So many rows took so long, latency left out. */
  private resize(rows: number, ms: number): void {
    if (ms > CHUNK_MS.shrink) {
      const fewer = 2 ** Math.floor(Math.log2(Math.max(rows / 2, 1)));
      this.rows = Math.min(this.rows, Math.max(fewer, Math.min(LEAST_CHUNK, this.mostRows)));
    } else if (ms < CHUNK_MS.grow && rows >= this.rows) {
      this.rows = Math.min(2 * this.rows, this.mostRows);
    }
  }

  /**
   * Find out whether the browser is late. If so nudge it from now on, unless that has not helped: the
   * times of before say nothing about it.
   */
  private judge(): void {
    const { count, cost, sure } = this.bursts;
    this.late = count >= ENOUGH && sure >= LATE_MS && sure > MAX_BURST * cost;
    if (!this.late) return;
    if (this.nudging === "untried") {
      this.nudging = "tried";
      this.late = false;
      this.chunks.forget();
      this.bursts.forget();
    } else if (this.bursts.count >= TRIAL) {
      this.nudging = "in vain";
    }
  }
}
