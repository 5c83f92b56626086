/** Which tokens may come next in texts of a grammar, exactly. */

import { EdgewiseError } from "../errors.ts";
import { type Around, type Automaton, automatonOf } from "./automaton.ts";
import type { Grammar } from "./nodes.ts";
import { BELOW, type State, States } from "./states.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Frames of stacks that a mask is looked up by first. */
const FIRST_DEPTH = 8;
/** Pairs looked at for one mask: about a second at most. */
const MAX_WORK = 1 << 20;
/** Bytes of masks that are kept. */
const MAX_MASKS = 64 << 20;
/** Bytes, about, of a state that a mask is kept by. */
const BYTES_OF_STATE = 1000;
/** States that can be gone back to, at least. */
const MAX_STATES = 1 << 17;

/**
 * A grammar over a vocabulary. A state is a number, and stays what it is: going back is taking an
 * earlier one. Of more than 131,072 states those are forgotten that were not used since.
 *
 * A token may come where its bytes are part of a text of the grammar: what is begun can always be
 * ended. Tokens that end an answer are for the caller to add where `mayEnd`.
 */
export class Matcher {
  readonly start: number;
  private readonly automaton: Automaton;
  private readonly states: States;
  /** By the state with stacks cut; null where more of them is needed. */
  private masks = new Map<State, Uint32Array | null>();
  private numbers = new Map<State, number>();
  private recent = new Map<number, State>();
  private older = new Map<number, State>();
  private next = 0;
  /** Masks that hold every token. */
  private readonly full = new WeakSet<Uint32Array>();

  /**
   * @param around see `Triggered`.
   * @throws EdgewiseError `constraint.too_large` for a grammar beyond bounds, `input.grammar` for
   *   rules that are missing, that no text ends, or that begin with themselves.
   */
  constructor(
    readonly grammar: Grammar,
    private readonly vocabulary: Vocabulary,
    around: Around | null = null,
  ) {
    this.automaton = automatonOf(grammar, around);
    this.states = new States(this.automaton);
    this.start = this.numberOf(this.states.start);
  }

  /**
   * The tokens that may come: bit t % 32 of word t / 32. It is kept, and not to be changed.
   *
   * @throws EdgewiseError `constraint.ambiguous`, `constraint.too_large`, `constraint.state`.
   */
  mask(state: number): Uint32Array {
    const whole = this.stateOf(state);
    this.states.visits = 0;
    for (let depth = FIRST_DEPTH; ; depth *= 2) {
      const cut = this.states.cut(whole, depth, this.vocabulary.longest);
      let mask = this.masks.get(cut);
      if (mask === undefined) {
        mask = this.walked(cut);
        if (this.masks.size * (4 * this.words + BYTES_OF_STATE) > MAX_MASKS) this.masks = new Map();
        this.masks.set(cut, mask);
      }
      if (mask) return mask;
    }
  }

  /** The state after a token; null where it may not come. */
  advance(state: number, token: number): number | null {
    const bytes = this.vocabulary.bytesOf(token);
    if (bytes && bytes.length > 0) return this.advanceBytes(state, bytes);
    const silent = Number.isInteger(token) && 0 <= token && token < this.vocabulary.size;
    return silent && this.isFree(this.stateOf(state)) ? state : null;
  }

  /** The state after bytes; null where they may not come. */
  advanceBytes(state: number, bytes: Uint8Array): number | null {
    let at: State | null = this.stateOf(state);
    for (const byte of bytes) {
      at = this.states.next(at, this.automaton.classes[byte] ?? 0);
      if (!at) return null;
    }
    return this.numberOf(at);
  }

  /** Whether a text may end here. */
  mayEnd(state: number): boolean {
    return this.stateOf(state).ends;
  }

  /** Whether a text may end here, and nothing may follow. */
  mustEnd(state: number): boolean {
    const { ends, places } = this.stateOf(state);
    return ends && places.length === 0;
  }

  /** The bytes, `most` of them, that must come: none where there is a choice, or a text may end. */
  forced(state: number, most: number): Uint8Array {
    const { samples, classes } = this.automaton;
    const sizes = new Uint16Array(samples.length);
    for (const cls of classes) sizes[cls] = (sizes[cls] ?? 0) + 1;
    const found: number[] = [];
    let at: State | null = this.stateOf(state);
    while (at && found.length < most && !at.ends) {
      const from: State = at;
      const open = [...samples.keys()].filter((cls) => this.states.next(from, cls));
      const [only] = open;
      if (only === undefined || open.length > 1 || sizes[only] !== 1) break;
      found.push(samples[only] ?? 0);
      at = this.states.next(from, only);
    }
    return Uint8Array.from(found);
  }

  /** Whether no mask is needed, since every token may come. */
  free(state: number): boolean {
    return this.isFree(this.stateOf(state)) && this.full.has(this.mask(state));
  }

  /** Whether free text may go on. */
  private isFree({ places }: State): boolean {
    return (places[0] ?? this.automaton.free) < this.automaton.free; // they are sorted
  }

  private get words(): number {
    return Math.ceil(this.vocabulary.size / 32);
  }

  /** The mask of a state; null where its stack is cut too short. */
  private walked(start: State): Uint32Array | null {
    const { trie, same } = this.vocabulary;
    const { count, bytes, depths, after, tokens } = trie;
    const { classes } = this.automaton;
    const free = this.isFree(start);
    const mask = free ? this.vocabulary.silent() : new Uint32Array(this.words);
    let left = free ? this.vocabulary.spoken : Number.POSITIVE_INFINITY;
    const path: State[] = [start];
    let at = 0;
    while (at < count) {
      const depth = depths[at] ?? 0;
      const from = path[depth - 1] ?? start;
      const cls = classes[bytes[at] ?? 0] ?? 0;
      let to = from.row[cls];
      if (to === undefined) {
        to = this.states.next(from, cls);
        if (this.states.visits > MAX_WORK) throw this.tooSlow();
      }
      if (to === BELOW) return null;
      if (to === null) {
        at = after[at] ?? count;
        continue;
      }
      path[depth] = to;
      for (let token = tokens[at] ?? -1; token >= 0; token = same[token] ?? -1) {
        mask[token >>> 5] = (mask[token >>> 5] ?? 0) | (1 << (token & 31));
        left -= 1;
      }
      at += 1;
    }
    if (left === 0) this.full.add(mask);
    return mask;
  }

  private tooSlow(): EdgewiseError {
    return new EdgewiseError(
      "constraint.ambiguous",
      `It takes more than ${MAX_WORK} steps to find the tokens that may come.`,
      "Write the grammar so that what comes tells alternatives apart.",
    );
  }

  private numberOf(state: State): number {
    const known = this.numbers.get(state);
    if (known !== undefined && this.known(known)) return known;
    if (this.recent.size >= MAX_STATES) this.forget();
    const number = this.next;
    this.next += 1;
    this.numbers.set(state, number);
    this.recent.set(number, state);
    return number;
  }

  private known(number: number): State | undefined {
    const state = this.recent.get(number) ?? this.older.get(number);
    if (state && !this.recent.has(number)) this.recent.set(number, state);
    return state;
  }

  private forget(): void {
    this.older = this.recent;
    this.recent = new Map([[this.start, this.states.start]]);
    this.numbers = new Map([...this.older].map(([number, state]) => [state, number]));
  }

  private stateOf(number: number): State {
    const state = this.known(number);
    if (state) return state;
    throw new EdgewiseError(
      "constraint.state",
      `${number} is no state of this constraint, or one that was forgotten.`,
    );
  }
}
