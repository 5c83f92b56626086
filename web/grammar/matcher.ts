/** Which tokens may come next in texts of a grammar, exactly. */

import { EdgewiseError } from "../errors.ts";
import { type Around, type Automaton, automatonOf } from "./automaton.ts";
import { Masks } from "./masks.ts";
import type { Grammar } from "./nodes.ts";
import { type State, States } from "./states.ts";
import type { Vocabulary } from "./vocabulary.ts";

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
  private readonly masks: Masks;
  private numbers = new Map<State, number>();
  private recent = new Map<number, State>();
  private older = new Map<number, State>();
  private next = 0;

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
    this.masks = new Masks(this.automaton, this.states, vocabulary);
    this.start = this.numberOf(this.states.start);
  }

  /**
   * The tokens that may come: bit t % 32 of word t / 32. It is kept, and not to be changed.
   *
   * @throws EdgewiseError `constraint.ambiguous`, `constraint.too_large`, `constraint.state`.
   */
  mask(state: number): Uint32Array {
    return this.masks.of(this.stateOf(state));
  }

  /** The state after a token; null where it may not come. */
  advance(state: number, token: number): number | null {
    const bytes = this.vocabulary.bytesOf(token);
    if (bytes && bytes.length > 0) return this.advanceBytes(state, bytes);
    const silent = Number.isInteger(token) && 0 <= token && token < this.vocabulary.size;
    return silent && this.masks.isFree(this.stateOf(state)) ? state : null;
  }

  /** The state after bytes; null where they may not come. */
  advanceBytes(state: number, bytes: Uint8Array): number | null {
    let at: State | null = this.stateOf(state);
    this.states.goOn();
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
    const at = this.stateOf(state);
    return this.masks.isFree(at) && this.masks.isFull(this.masks.of(at));
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
