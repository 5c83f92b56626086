import type { Completion, Generation } from "./types.ts";

interface Source {
  readonly completion: Promise<Completion>;
  readonly stop: () => void;
}

/**
 * Pieces of text handed from whoever receives them to whoever iterates.
 *
 * What arrives before anyone iterates is kept; iterating twice shares the pieces.
 */
export class Pieces implements Generation {
  private readonly source: Source;
  private readonly texts: string[] = [];
  private ended = false;
  private failure: unknown;
  private wake: (() => void) | null = null;

  /** @param start begins the generation and reports its pieces to the function it is given. */
  constructor(start: (onPiece: (text: string) => void) => Source) {
    this.source = start((text) => {
      if (!text) return;
      this.texts.push(text);
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

  stop(): void {
    this.source.stop();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    try {
      while (true) {
        const text = this.texts.shift();
        if (text !== undefined) {
          yield text;
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
