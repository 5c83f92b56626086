/**
 * Answers held to a grammar, and thoughts to a number of tokens: what an engine asks at each token. As in Python's
 * `edgewise/held.py`.
 *
 * States are numbers that stay what they are, as a matcher's do.
 */

import type { Vocabulary } from "../grammar/vocabulary.ts";
import type { Constraint } from "./constraint.ts";

/** Returns the tokens of a text that goes on one. */
export type Encode = (text: string) => readonly number[];
/** What a matcher is asked. */
export type Matching = Omit<Constraint, "forcedTokens"> & {
  /** The bytes, `most` of them, that must come. */
  forced(state: number, most: number): Uint8Array;
};

/** Bytes looked ahead for what must come. */
const MOST_FORCED = 256;

/** An answer that follows a grammar. */
export function held(matcher: Matching, encode: Encode): Constraint {
  return {
    start: matcher.start,
    mask: (state) => matcher.mask(state),
    advance: (state, token) => matcher.advance(state, token),
    mayEnd: (state) => matcher.mayEnd(state),
    mustEnd: (state) => matcher.mustEnd(state),
    free: (state) => matcher.free(state),
    // Where a choice follows them the last one is left out, since it may be spelled together with what is chosen.
    forcedTokens(state) {
      const bytes = matcher.forced(state, MOST_FORCED);
      const text = textOf(bytes);
      if (bytes.length < 2 || text === "") return [];
      const found = encode(text);
      let at = state;
      for (const token of found) {
        const after = matcher.advance(at, token);
        if (after === null) return [];
        at = after;
      }
      return matcher.mustEnd(at) ? found : found.slice(0, -1);
    },
  };
}

/** An answer that follows nothing, of so many tokens of a vocabulary. */
export function free(size: number): Constraint {
  const all = new Uint32Array(Math.ceil(size / 32)).fill(0xffffffff);
  return {
    start: 0,
    mask: () => all,
    advance: (state) => state,
    mayEnd: () => true,
    mustEnd: () => false,
    free: () => true,
    forcedTokens: () => [],
  };
}

export interface Budget {
  /** What begins a thought, and what ends it. */
  readonly marks: readonly [string, string];
  /** The thought has begun in the prompt. */
  readonly opened: boolean;
  /** Tokens. */
  readonly tokens: number;
  /** Those that end a thought, the mark and what stands around it. */
  readonly closing: readonly number[];
}

type Phase = "before" | "thought" | "closing" | "after";

/** Where the inner constraint is, where the thought, what may begin a mark, and how many tokens of that there are. */
interface Place {
  readonly inner: number;
  readonly phase: Phase;
  /** A byte a character. */
  readonly seen: string;
  readonly count: number;
}

/** An answer whose thought has so many tokens at most, after which its end is written. */
export class Budgeted implements Constraint {
  readonly start: number;
  private readonly inner: Constraint;
  private readonly vocabulary: Vocabulary;
  private readonly budget: Budget;
  private readonly open: string;
  private readonly close: string;
  private readonly numbers = new Map<string, number>();
  private readonly places: Place[] = [];
  private readonly single = new Map<number, Uint32Array>();

  constructor(inner: Constraint, vocabulary: Vocabulary, budget: Budget) {
    this.inner = inner;
    this.vocabulary = vocabulary;
    this.budget = budget;
    const [open, close] = budget.marks;
    this.open = latin1(new TextEncoder().encode(open));
    this.close = latin1(new TextEncoder().encode(close));
    const phase = budget.opened ? "thought" : "before";
    this.start = this.number({ inner: inner.start, phase, seen: "", count: 0 });
  }

  /** The tokens that may come; where the thought is closed only the next one of that. */
  mask(state: number): Uint32Array {
    const [next] = this.due(state);
    return next === undefined ? this.inner.mask(this.place(state).inner) : this.only(next);
  }

  advance(state: number, token: number): number | null {
    const { inner, phase, seen, count } = this.place(state);
    const due = this.due(state);
    if (due.length > 0 && token !== due[0]) return null;
    const after = this.inner.advance(inner, token);
    if (after === null) return null;
    const done: Place = { inner: after, phase: "after", seen: "", count: 0 };
    if (phase === "after") return this.number(done);
    if (due.length > 0) {
      const written = this.budget.closing.length - due.length + 1;
      const closing: Place = { inner: after, phase: "closing", seen: "", count: written };
      return this.number(due.length === 1 ? done : closing);
    }
    const text = seen + latin1(this.vocabulary.bytesOf(token) ?? new Uint8Array());
    return this.number({ inner: after, ...this.read(phase, text, count) });
  }

  mayEnd(state: number): boolean {
    return this.due(state).length === 0 && this.inner.mayEnd(this.place(state).inner);
  }

  mustEnd(state: number): boolean {
    return this.due(state).length === 0 && this.inner.mustEnd(this.place(state).inner);
  }

  free(state: number): boolean {
    return this.due(state).length === 0 && this.inner.free(this.place(state).inner);
  }

  forcedTokens(state: number): readonly number[] {
    const due = this.due(state);
    return due.length > 0 ? due : this.inner.forcedTokens(this.place(state).inner);
  }

  /** What is left to be written of the end of a thought that is too long. */
  private due(state: number): readonly number[] {
    const { phase, count } = this.place(state);
    const { closing, tokens } = this.budget;
    if (phase === "closing") return closing.slice(count);
    return phase === "thought" && count >= tokens ? closing : [];
  }

  /** Where text leads that is thought, or may become a thought. */
  private read(phase: Phase, begun: string, counted: number): Omit<Place, "inner"> {
    const done = { phase: "after", seen: "", count: 0 } as const;
    let [text, count] = [begun, counted];
    if (phase === "before") {
      text = text.replace(/^[ \t-\r]+/, "");
      if (!text.startsWith(this.open)) {
        return this.open.startsWith(text) ? { phase, seen: text, count: 0 } : done;
      }
      text = text.slice(this.open.length);
      count = -1;
    }
    if (text.includes(this.close)) return done;
    const kept = this.close.length > 1 ? text.slice(1 - this.close.length) : "";
    return { phase: "thought", seen: kept, count: count + 1 };
  }

  private only(token: number): Uint32Array {
    const known = this.single.get(token);
    if (known) return known;
    const mask = new Uint32Array(Math.ceil(this.vocabulary.size / 32));
    mask[token >>> 5] = 1 << (token & 31);
    this.single.set(token, mask);
    return mask;
  }

  private place(state: number): Place {
    const found = this.places[state];
    if (!found) throw new RangeError(`${state} is no state`);
    return found;
  }

  private number(place: Place): number {
    const key = `${place.inner} ${place.phase} ${place.count} ${place.seen}`;
    const known = this.numbers.get(key);
    if (known !== undefined) return known;
    const number = this.places.length;
    this.places.push(place);
    this.numbers.set(key, number);
    return number;
  }
}

/** The whole characters of a text's bytes; empty where they are none. */
function textOf(bytes: Uint8Array): string {
  const text = new TextDecoder("utf-8", { ignoreBOM: true });
  const found = text.decode(bytes, { stream: true });
  return found.includes("\ufffd") ? "" : found;
}

function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}
