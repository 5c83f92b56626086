/** Text handed from a generation to whoever iterates it. */

/** Pieces wait until they are read; iterating twice shares them. Leaving the loop calls `left`. */
export class TextStream implements AsyncIterable<string> {
  private readonly left: () => void;
  private readonly pieces: string[] = [];
  private ended = false;
  private failure: Error | null = null;
  private readers: (() => void)[] = [];

  constructor(left: () => void) {
    this.left = left;
  }

  push(text: string): void {
    if (!text || this.ended) return;
    this.pieces.push(text);
    this.wake();
  }

  /** Nothing follows; with a failure, iterating throws it after the pieces before. */
  end(failure: Error | null = null): void {
    if (this.ended) return;
    this.ended = true;
    this.failure = failure;
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    try {
      while (true) {
        const piece = this.pieces.shift();
        if (piece !== undefined) {
          yield piece;
        } else if (this.ended) {
          if (this.failure) throw this.failure;
          return;
        } else {
          await new Promise<void>((resolve) => this.readers.push(resolve));
        }
      }
    } finally {
      this.left();
    }
  }

  private wake(): void {
    const readers = this.readers;
    this.readers = [];
    for (const read of readers) read();
  }
}
