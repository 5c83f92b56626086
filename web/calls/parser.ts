/** An answer while it comes, told into what is said, what is thought and what is called. As in Python's `calls/parser.py`. */

import { type ThoughtPiece, ThoughtStream } from "../engine/thinking.ts";
import { type Delta, joined } from "./deltas.ts";
import type { Format } from "./format.ts";
import { type Reading, Source, type Tools } from "./source.ts";

const ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/** Mistral's templates accept no other. */
const ID_LENGTH = 9;

/** An id for a call: nine letters and digits. */
export function newId(): string {
  const numbers = crypto.getRandomValues(new Uint32Array(ID_LENGTH));
  return [...numbers].map((n) => ID_CHARACTERS.charAt(n % ID_CHARACTERS.length)).join("");
}

export interface ParserOptions {
  /**
   * JSON schemas of the arguments of the tools that there are, by name. Where a model writes arguments without types
   * they say what is a number; where it writes calls without marks, only these are calls.
   */
  readonly tools?: Tools | null;
  /** The prompt has begun a thought. */
  readonly opened?: boolean;
  /** Returns the id of a call. */
  readonly newId?: () => string;
}

/**
 * Parses one answer. It never throws: what is no call comes out as "no call", or is content.
 *
 * The same text gives the same deltas, joined, however it is cut.
 */
export class Parser {
  private readonly thoughts: ThoughtStream | null;
  private readonly source: Source;
  private readonly reading: Reading<void>;

  /** @param format how this model writes calls (`formatOf`, `formatNamed`). */
  constructor(format: Format, options: ParserOptions = {}) {
    const { thoughts } = format;
    this.thoughts = thoughts.length > 0 ? new ThoughtStream(thoughts, options.opened) : null;
    this.source = new Source(options.tools ?? null, options.newId ?? newId);
    this.reading = format.read(this.source);
  }

  /**
   * Take the next piece of text, in which the format's marks are shown; return what is certain now. What may turn
   * out to be a mark, or white space before a call, is held back.
   */
  feed(text: string): Delta[] {
    this.take(this.thoughts ? this.thoughts.push(text) : [{ thought: false, text }]);
    return this.taken();
  }

  /** Say that nothing follows; return what was held back. */
  end(): Delta[] {
    if (this.thoughts) this.take(this.thoughts.finish());
    if (!this.source.ended) {
      this.source.ended = true;
      this.reading.next();
      this.source.finish();
    }
    return this.taken();
  }

  private take(parts: readonly ThoughtPiece[]): void {
    for (const { thought, text } of parts) {
      if (thought) {
        this.source.think(text);
      } else {
        this.source.push(text);
        this.reading.next();
      }
    }
  }

  private taken(): Delta[] {
    const { deltas } = this.source;
    this.source.deltas = [];
    return joined(deltas);
  }
}
