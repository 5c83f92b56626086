/** What is known of one way to write calls. As in Python's `calls/format.py`. */

import type { Marks } from "../engine/thinking.ts";
import type { Reading, Source } from "./source.ts";

export const THINK: Marks = [["<think>", "</think>"]];

/**
 * How calls are written where they are forced: what a grammar puts around names and arguments.
 *
 * `first`, then of each call `begin`, its name, `named`, its arguments and `end`, with `between` between two calls;
 * then `last`.
 */
export interface Spelling {
  /** The mark of an id of nine letters and digits, which may stand behind a name. */
  readonly id: string;
  readonly first: string;
  readonly begin: string;
  readonly named: string;
  readonly end: string;
  readonly between: string;
  readonly last: string;
  /** What may stand behind all that; tokenizers have it as a token that ends the answer. */
  readonly close: string;
  /** The notation of the arguments. */
  readonly arguments: "json" | "xml" | "gemma" | "python";
  /** The mark around strings of Gemma's notation. */
  readonly quote: string;
  /**
   * What a thought stands between that may come before calls, where `read` tells thoughts itself, and between the two
   * what no thought has in it.
   */
  readonly thought: readonly [string, string, string] | null;
  /** `free` where the model may go on with text, `end` where calls end its turn. */
  readonly after: "free" | "end";
}

/** One way to write calls. */
export interface Format {
  /** What it is chosen by. */
  readonly name: string;
  /** The reader of an answer, thoughts at its beginning left out. */
  readonly read: (source: Source) => Reading<void>;
  /** Texts that `read` looks for. */
  readonly marks: readonly string[];
  /**
   * Texts after which nothing but a call is meant, so that a grammar may begin there. Empty where only the whole
   * answer can be a call.
   */
  readonly triggers: readonly string[];
  /** How calls are written where they are forced. */
  readonly spelling: Spelling;
  /**
   * Marks around a thought that the answer may begin with; the first pair is the one that a prompt may have opened.
   * Empty where `read` tells thoughts itself.
   */
  readonly thoughts: Marks;
}

/** All texts that have to be seen; of special tokens those are shown that one has in it. */
export function shownBy(format: Format): readonly string[] {
  return [...format.marks, ...format.thoughts.flat()];
}

/** A spelling of which only what is not empty is given. */
export function spelling(given: Partial<Spelling>): Spelling {
  return {
    id: "",
    first: "",
    begin: "",
    named: "",
    end: "",
    between: "",
    last: "",
    close: "",
    arguments: "json",
    quote: "",
    thought: null,
    after: "end",
    ...given,
  };
}
