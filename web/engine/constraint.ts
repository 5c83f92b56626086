/** What an answer must follow, as the engine asks for it. As in Python's `engine/constraint.py`. */

import { EdgewiseError } from "../errors.ts";

/** Says which tokens may come next. A state is a number, and stays what it is. */
export interface Constraint {
  readonly start: number;
  /** The tokens that may come: bit t % 32 of word t / 32. Not to be changed. */
  mask(state: number): Uint32Array;
  /** The state after a token; null where it may not come. */
  advance(state: number, token: number): number | null;
  /** Whether an answer may end here: end tokens may come then. */
  mayEnd(state: number): boolean;
  /** Whether an answer may end here, and nothing may follow. */
  mustEnd(state: number): boolean;
  /** Whether no mask is needed. */
  free(state: number): boolean;
  /** The tokens that must come next, as far as that is certain. */
  forcedTokens(state: number): readonly number[];
}

/** What a constraint threw, as the error that its answer ends with. */
export function misled(cause: unknown): EdgewiseError {
  return EdgewiseError.from(cause, "engine.constraint", "What the answer has to follow has failed");
}

/** What is no mask. */
const UNKNOWN = new Uint32Array();

/** Where one answer stands in its constraint. */
export class Guide {
  private readonly constraint: Constraint;
  /** Tokens that have to be drawn next, see `draw`. */
  due: readonly number[] = [];
  private state: number;
  private last: Uint32Array | null = UNKNOWN;
  /** Tokens drawn in a row under it. */
  private run = 0;
  /** The mask that stayed longest, and for how many when it was there last. */
  private usual: Uint32Array = UNKNOWN;
  private usualRun = 0;

  /**
   * @param begun tokens that the answer begins with.
   * @throws EdgewiseError `input.begun` where they do not follow the constraint.
   */
  constructor(constraint: Constraint, begun: readonly number[]) {
    this.constraint = constraint;
    this.state = constraint.start;
    if (begun.every((token) => this.follow(token))) return;
    throw new EdgewiseError(
      "input.begun",
      "The answer that is to go on is not one of what is asked for now.",
      "Ask for what was asked for then, or begin anew.",
    );
  }

  /** Take a token; false where it may not come. */
  follow(token: number): boolean {
    const [due, ...rest] = this.due;
    if (due !== undefined) {
      this.due = rest;
      if (token !== due) return false;
    }
    const next = this.constraint.advance(this.state, token);
    if (next === null) return false;
    this.state = next;
    return true;
  }

  /** Whether nothing may follow. */
  get ended(): boolean {
    return this.constraint.mustEnd(this.state);
  }

  /** The tokens that must come next. */
  get forced(): readonly number[] {
    return this.constraint.forcedTokens(this.state);
  }

  /**
   * Let tokens that must come next be drawn, one after the other, as those and no others that the constraint might take
   * in their place.
   */
  draw(forced: readonly number[]): void {
    this.due = forced;
  }

  /** Whether any token may come next. */
  get free(): boolean {
    return this.due.length === 0 && this.constraint.free(this.state);
  }

  /**
   * The tokens that may come next, a bit each; null where all may. A mask that is the same as the last one is the same
   * array.
   *
   * @param words of a row of masks.
   * @param ends tokens that end an answer, where it may end.
   * @param short the answer is to go on as long as it can.
   * @throws EdgewiseError `constraint.stuck` where none may come.
   */
  mask(words: number, ends: Iterable<number>, short = false): Uint32Array | null {
    const [due] = this.due;
    if (due !== undefined) return only(due, words);
    const found = this.made(words, ends, short);
    if (found === this.last) this.run += 1;
    else this.leave(found);
    return found;
  }

  /**
   * Whether the next token is one to be drawn under the last mask again: what may come is the same, and nothing must
   * come. Throws as `mask`.
   *
   * @param ends as of the last mask, which was not of a `short` answer.
   */
  goesOn(ends: Iterable<number>): boolean {
    if (this.isSteady(ends)) {
      this.run += 1;
      return true;
    }
    this.leave(UNKNOWN);
    return false;
  }

  /** For how many tokens the mask is likely to stay as it is: as many as it has, or had when it was there before. */
  get steady(): number {
    return Math.max(this.run, this.last === this.usual ? this.usualRun : 0);
  }

  private leave(to: Uint32Array | null): void {
    const { last, run } = this;
    if (last !== null && (last === this.usual || run > this.usualRun)) {
      [this.usual, this.usualRun] = [last, run];
    }
    [this.last, this.run] = [to, 0];
  }

  private isSteady(ends: Iterable<number>): boolean {
    if (this.due.length > 0 || this.forced.length > 0) return false;
    if (this.last === null) return this.free;
    return this.made(this.last.length, ends, false) === this.last;
  }

  private made(words: number, ends: Iterable<number>, short: boolean): Uint32Array | null {
    const { constraint, state } = this;
    if (constraint.free(state) || constraint.mustEnd(state)) return null;
    const mask = new Uint32Array(words);
    mask.set(constraint.mask(state).subarray(0, words));
    if (constraint.mayEnd(state) && !(short && mask.some((word) => word !== 0))) {
      for (const token of ends) mask[token >>> 5] = (mask[token >>> 5] ?? 0) | (1 << (token & 31));
    }
    if (mask.every((word) => word === 0)) {
      throw new EdgewiseError(
        "constraint.stuck",
        "No token of this model can go on with an answer that is as asked for.",
        "Ask for what the model's tokens can spell.",
      );
    }
    return [this.last, this.usual].find((known) => known !== null && areEqual(mask, known)) ?? mask;
  }
}

function only(token: number, words: number): Uint32Array {
  const mask = new Uint32Array(words);
  mask[token >>> 5] = 1 << (token & 31);
  return mask;
}

function areEqual(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((word, at) => word === b[at]);
}
