import type { Delta } from "../calls/deltas.ts";
import type { Completion, Generation, TokenLogprob } from "./types.ts";

interface Source {
  readonly completion: Promise<Completion>;
  readonly stop: () => void;
}

/** Hears what comes, and the tokens since what came before, with how likely they were where that was asked for. */
export type OnDeltas = (
  deltas: readonly Delta[],
  tokens: readonly number[],
  logprobs?: readonly TokenLogprob[],
) => void;

/**
 * What comes of a generation, handed from whoever receives them to whoever iterates.
 *
 * What arrives before anyone iterates is kept; iterating twice shares the pieces.
 */
export class Pieces implements Generation {
  private readonly source: Source;
  private readonly waiting: Delta[] = [];
  private ended = false;
  private failure: unknown;
  private wake: (() => void) | null = null;
  private readonly ids: number[] = [];
  private readonly likely: TokenLogprob[] = [];

  /** @param start begins the generation and reports what comes to the function it is given. */
  constructor(start: (onDeltas: OnDeltas) => Source) {
    this.source = start((deltas, tokens, logprobs = []) => {
      this.ids.push(...tokens);
      this.likely.push(...logprobs);
      this.waiting.push(...deltas);
      this.notify();
    });
    this.source.completion.then(
      () => this.end(undefined),
      (error: unknown) => this.end(error),
    );
  }

  get completion(): Promise<Completion> {
    return this.source.completion;
  }

  get tokenIds(): readonly number[] {
    return this.ids;
  }

  get logprobs(): readonly TokenLogprob[] {
    return this.likely;
  }

  stop(): void {
    this.source.stop();
  }

  /** What of it is the completion's text. */
  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    for await (const delta of this.deltas) {
      const said = delta.kind === "content" || delta.kind === "no call";
      if (said && delta.text) yield delta.text;
    }
  }

  get deltas(): AsyncIterable<Delta> {
    return { [Symbol.asyncIterator]: () => this.taken() };
  }

  private async *taken(): AsyncGenerator<Delta, void, undefined> {
    try {
      while (true) {
        const delta = this.waiting.shift();
        if (delta !== undefined) {
          yield delta;
        } else if (this.ended) {
          if (this.failure !== undefined) throw this.failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.wake = resolve;
          });
        }
      }
    } finally {
      if (!this.ended) this.stop();
    }
  }

  private end(failure: unknown): void {
    this.ended = true;
    this.failure = failure;
    this.notify();
  }

  private notify(): void {
    this.wake?.();
    this.wake = null;
  }
}
