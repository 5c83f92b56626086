/**
 * What an automaton may be in after some bytes: sets of its states, each with a stack.
 *
 * A state here is what is kept of all texts that go on alike. Where a byte leads is found when it is
 * first asked for, and kept (as lazy automata of regular expressions do).
 */

import { EdgewiseError } from "../errors.ts";
import { type Automaton, BYTES, CALL, END, REPEAT, SPLIT } from "./automaton.ts";
import { again, BOTTOM, ROOT, type Stack, Stacks } from "./stacks.ts";

/** Pairs of a place in the automaton and a stack in a state. */
const MAX_PAIRS = 1 << 12;
/** Pairs that are looked at from one byte to the next. */
const MAX_VISITS = 1 << 16;
/** Pairs that may be looked at at once: about a second. */
const MAX_WORK = 1 << 19;
/** So many more may be with each mask and each token: those who share a step wait for them. */
const MORE_WORK = 1 << 12;
/** Bytes, about, of what is kept, but for masks. */
const MAX_KEPT = 64 << 20;
const BYTES_OF_STATE = 200;
const BYTES_OF_PAIR = 40;
const BYTES_OF_KEY = 100;
const BYTES_OF_CLASS = 8;
const BYTES_OF_STACK = 160;

/** Places (all of them BYTES), each with its stack, after some bytes. */
export interface State {
  readonly places: readonly number[];
  readonly stacks: readonly Stack[];
  /** Whether a text may end here. */
  readonly ends: boolean;
  /** Where a byte of each class leads; undefined where that was not asked for yet. */
  readonly row: (State | null | undefined)[];
}

/** What BOTTOM leaves out would be needed. */
export const BELOW: State = { places: [], stacks: [], ends: false, row: [] };

interface Pair {
  readonly place: number;
  readonly stack: Stack;
}

export class States {
  readonly start: State;
  /** Pairs that may still be looked at. */
  private left = MAX_WORK;
  private readonly stacks: Stacks;
  private made = new Map<string, State>();
  /** What bytes led to before, by the pairs that they lead to at first. */
  private led = new Map<string, State | null>();
  /** Those of which a row has something in it. */
  private asked = new Set<State>();
  private kept = 0;

  constructor(private readonly automaton: Automaton) {
    this.stacks = new Stacks(automaton.code.length);
    this.start = this.closed([{ place: automaton.start, stack: ROOT }]) ?? BELOW;
  }

  /** Allow for another mask, or token. */
  goOn(): void {
    this.left = Math.min(MAX_WORK, this.left + MORE_WORK);
  }

  /**
   * Where a byte of a class leads: null where none may come, BELOW where that cannot be told.
   *
   * @throws EdgewiseError `constraint.ambiguous`, `constraint.too_large`.
   */
  next(state: State, cls: number): State | null {
    const found = state.row[cls];
    if (found !== undefined) return found;
    const { code, samples } = this.automaton;
    const byte = samples[cls] ?? 0;
    const pairs: Pair[] = [];
    for (const [i, place] of state.places.entries()) {
      const end = place + 2 + 3 * (code[place + 1] ?? 0);
      for (let at = place + 2; at < end; at += 3) {
        if ((code[at] ?? 0) <= byte && byte <= (code[at + 1] ?? 0)) {
          pairs.push({ place: code[at + 2] ?? END, stack: state.stacks[i] ?? ROOT });
        }
      }
    }
    const key = keyOf(pairs);
    let next = this.led.get(key);
    if (next === undefined) {
      next = this.closed(pairs);
      this.led.set(key, next);
      this.kept += BYTES_OF_KEY * pairs.length;
    }
    state.row[cls] = next;
    this.asked.add(state);
    return next;
  }

  /** The state with stacks cut (`Stacks.cut`): the same for texts of `length` bytes, if not BELOW. */
  cut({ places, stacks, ends }: State, depth: number, length: number): State {
    const pairs = places.map((place, i) => {
      const stack = this.stacks.cut(stacks[i] ?? ROOT, depth, length);
      return { place, stack };
    });
    return this.interned(pairs, ends);
  }

  /** Forget what is there; states that are in use stay what they are. */
  clear(): void {
    for (const state of this.asked) state.row.fill(undefined);
    this.asked = new Set();
    this.made = new Map();
    this.led = new Map();
    this.stacks.clear();
    this.kept = 0;
  }

  /** What can be reached from pairs without another byte. */
  private closed(pairs: readonly Pair[]): State | null {
    const { code } = this.automaton;
    const left = [...pairs];
    const seen = new Set<number>();
    const counted = new Map<string, (readonly [number, number])[]>();
    const found: Pair[] = [];
    let ends = false;
    let visits = 0;
    let repeats = 0;

    /** A body that may go on from `least` to `most` times. */
    const repeat = (place: number, stack: Stack, least: number, most: number): void => {
      const key = `${place} ${stack.id}`;
      const before = counted.get(key) ?? [];
      if (before.some(([l, m]) => l <= least && most <= m)) return;
      before.push([least, most]);
      counted.set(key, before);
      repeats += 1;
      if (least === 0) left.push({ place: code[place + 4] ?? END, stack });
      if (most > 0) {
        const frame = this.stacks.push(stack, ~place, ...again(least, most));
        left.push({ place: code[place + 1] ?? END, stack: frame });
      }
    };

    for (let pair = left.pop(); pair; pair = left.pop()) {
      const { place, stack } = pair;
      const key = stack.id * code.length + place;
      if (seen.has(key)) continue;
      seen.add(key);
      visits += 1;
      if (visits > MAX_VISITS) throw ambiguous(MAX_VISITS);
      switch (code[place]) {
        case BYTES:
          found.push(pair);
          break;
        case SPLIT: {
          const end = place + 2 + (code[place + 1] ?? 0);
          for (let at = place + 2; at < end; at++) left.push({ place: code[at] ?? END, stack });
          break;
        }
        case CALL: {
          const back = code[place + 2] ?? END;
          // A rule with which another ends goes on where that one does.
          const frame = back === END ? stack : this.stacks.push(stack, back);
          left.push({ place: code[place + 1] ?? END, stack: frame });
          break;
        }
        case REPEAT:
          repeat(place, stack, code[place + 2] ?? 0, code[place + 3] ?? 0);
          break;
        default:
          if (stack === BOTTOM) return BELOW;
          if (!stack.below) ends = true;
          else if (stack.back >= 0) left.push({ place: stack.back, stack: stack.below });
          else repeat(~stack.back, stack.below, stack.least, stack.most);
      }
    }
    this.left -= visits + repeats;
    if (this.left < 0) throw tooSlow();
    return found.length === 0 && !ends ? null : this.interned(found, ends);
  }

  private interned(pairs: readonly Pair[], ends: boolean): State {
    const joined = this.joined(pairs).sort((a, b) => a.place - b.place || a.stack.id - b.stack.id);
    if (joined.length > MAX_PAIRS) throw ambiguous(MAX_PAIRS);
    const key = `${ends} ${keyOf(joined)}`;
    const found = this.made.get(key);
    if (found) return found;
    const state: State = {
      places: joined.map(({ place }) => place),
      stacks: joined.map(({ stack }) => stack),
      ends,
      row: new Array<State | null | undefined>(this.automaton.samples.length).fill(undefined),
    };
    this.made.set(key, state);
    this.kept += BYTES_OF_STATE + BYTES_OF_PAIR * joined.length + BYTES_OF_CLASS * state.row.length;
    if (this.kept + BYTES_OF_STACK * this.stacks.count > MAX_KEPT) this.clear();
    return state;
  }

  /**
   * The same pairs, each once. Where all that two differ by are the counts of the repetition that
   * they are in, and one goes on where the other stops, they are one pair with the counts of both.
   */
  private joined(pairs: readonly Pair[]): Pair[] {
    const kept = new Map<number, Pair>();
    const counted = new Map<string, Pair[]>();
    for (const pair of pairs) {
      const { place, stack } = pair;
      if (stack.back >= 0) kept.set(stack.id * this.automaton.code.length + place, pair);
      else {
        const key = `${place} ${stack.back} ${stack.below?.id}`;
        const same = counted.get(key) ?? [];
        counted.set(key, same);
        same.push(pair);
      }
    }
    const joined = [...kept.values()];
    for (const same of counted.values()) {
      same.sort((a, b) => a.stack.least - b.stack.least || b.stack.most - a.stack.most);
      let last: Pair | undefined;
      for (const pair of same) {
        const { stack } = pair;
        if (last && stack.least <= last.stack.most + 1) {
          const { least, most } = last.stack;
          if (stack.most <= most || !stack.below) continue;
          const whole = this.stacks.push(stack.below, stack.back, least, stack.most);
          last = { place: pair.place, stack: whole };
          joined[joined.length - 1] = last;
        } else {
          last = pair;
          joined.push(pair);
        }
      }
    }
    return joined;
  }
}

function keyOf(pairs: readonly Pair[]): string {
  let key = "";
  for (const { place, stack } of pairs) key += `${place},${stack.id} `;
  return key;
}

function tooSlow(): EdgewiseError {
  return new EdgewiseError(
    "constraint.ambiguous",
    `It takes more than ${MAX_WORK} steps to find the tokens that may come.`,
    "Write the grammar so that what comes tells alternatives apart.",
  );
}

function ambiguous(most: number): EdgewiseError {
  return new EdgewiseError(
    "constraint.ambiguous",
    `A text can be read by the grammar in more than ${most} ways at once.`,
    "Write it so that what comes tells alternatives apart.",
  );
}
