/** Work under way on the device, in the order it was handed over. */

import type { Elements } from "../device/base.ts";
import type { Rows } from "./batch.ts";
import type { Draft } from "./drafts/drafting.ts";
import type { Step } from "./metrics/record.ts";
import type { Effort } from "./pace.ts";
import type { Sequence } from "./sequence.ts";

type Read = ReadonlyMap<string, Elements>;

/** A chunk of a prompt: `end` tokens are in KV after it. */
export interface Chunk {
  readonly sequence: Sequence;
  readonly end: number;
  readonly rows: number;
}

/** A chunk, a burst, a prompt's last chunk with its first token, or drafts that are verified. */
export interface Work {
  readonly chunk: Chunk | null;
  readonly drafts?: readonly Draft[];
  /** The rows that get tokens, and how many at most. */
  readonly rows: Rows | null;
  readonly steps: number;
  /** When it was handed over, by the engine's clock. */
  readonly submitted: number;
}

/** What the device has to do for it. */
export function effortOf({ chunk, drafts, rows, steps, submitted }: Work): Effort {
  if (drafts) return { kind: "chunk", size: rows?.sequences.length ?? 1, submitted };
  return chunk
    ? { kind: "chunk", size: chunk.rows, submitted }
    : { kind: "burst", size: steps, submitted };
}

/** It as metrics have it; `budget` is the most tokens that a step computes. Times in milliseconds. */
export function stepOf(work: Work, started: number, ms: number, budget: number): Step {
  const { chunk, drafts, rows, steps } = work;
  const plain = chunk || drafts ? 0 : (rows?.sequences.length ?? 0);
  return {
    startedS: started / 1000,
    seconds: ms / 1000,
    budget,
    prefillTokens: chunk?.rows ?? 0,
    decodeTokens: drafts ? drafts.length : plain * steps,
    draftTokens: drafts?.reduce((sum, { tokens }) => sum + tokens.length, 0) ?? 0,
    burst: chunk ? 0 : steps,
    batch: chunk ? 1 : (drafts?.length ?? plain),
  };
}

export class Flights {
  private list: { readonly work: Work; readonly done: Promise<Read> }[] = [];
  private interrupt: () => void = () => {};

  get count(): number {
    return this.list.length;
  }

  /** The oldest. */
  get first(): Work | null {
    return this.list[0]?.work ?? null;
  }

  /** Whether there will be tokens that nobody has seen. */
  get unseen(): boolean {
    return this.list.some(({ work }) => work.rows !== null);
  }

  add(done: Promise<Read>, work: Work): void {
    done.catch(() => {}); // heard of in its turn, or no longer of interest
    this.list.push({ work, done });
  }

  /**
   * Wait for the oldest and take it out; null where it was forgotten meanwhile.
   *
   * @throws what it failed with.
   */
  async next(): Promise<{ readonly work: Work; readonly read: Read } | null> {
    const [first] = this.list;
    if (!first) return null;
    const forgotten = new Promise<null>((resolve) => {
      this.interrupt = () => resolve(null);
    });
    // What went wrong is thrown only once it is known that somebody still wants to hear of it.
    const arrived = first.done.then(
      (read) => () => read,
      (error: unknown) => () => {
        throw error;
      },
    );
    const read = await Promise.race([arrived, forgotten]);
    if (read === null || this.list[0] !== first) return null;
    this.list.shift();
    return { work: first.work, read: read() };
  }

  /** Nobody wants to know what comes of them. */
  forget(): void {
    this.list = [];
    this.interrupt();
  }
}
