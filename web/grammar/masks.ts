/** The masks of states: a walk over the tries of a vocabulary, and those that are kept. */

import type { Automaton } from "./automaton.ts";
import { BELOW, type State, type States } from "./states.ts";
import type { Trie, Vocabulary } from "./vocabulary.ts";

/** Frames of stacks that a mask is looked up by first. */
const FIRST_DEPTH = 8;
/** Bytes of masks that are kept. */
const MAX_KEPT = 64 << 20;
/** Bytes, about, of a state that a mask is kept by. */
const BYTES_OF_STATE = 1000;

/** A mask, and how many tokens are in it. */
interface Part {
  readonly mask: Uint32Array;
  readonly count: number;
}

/**
 * Makes masks, and keeps them by the state with its stacks cut: null where more of them is needed.
 *
 * Of short tokens they are kept apart: near the end of what is counted, where it matters for long
 * ones how much is left, short ones are mostly the same.
 */
export class Masks {
  private wholes = new Map<State, Uint32Array | null>();
  private shorts = new Map<State, Part | null>();
  /** Masks that hold every token. */
  private readonly full = new WeakSet<Uint32Array>();

  constructor(
    private readonly automaton: Automaton,
    private readonly states: States,
    private readonly vocabulary: Vocabulary,
  ) {}

  /** @throws EdgewiseError `constraint.ambiguous`, `constraint.too_large`. */
  of(state: State): Uint32Array {
    this.states.goOn();
    for (let depth = FIRST_DEPTH; ; depth *= 2) {
      const cut = this.states.cut(state, depth, this.vocabulary.longest);
      let mask = this.wholes.get(cut);
      if (mask === undefined) {
        mask = this.whole(cut, depth);
        this.tidy();
        this.wholes.set(cut, mask);
      }
      if (mask) return mask;
    }
  }

  /** Whether a mask holds every token. */
  isFull(mask: Uint32Array): boolean {
    return this.full.has(mask);
  }

  /** Whether free text may go on. */
  isFree({ places }: State): boolean {
    return (places[0] ?? this.automaton.free) < this.automaton.free; // they are sorted
  }

  private whole(cut: State, depth: number): Uint32Array | null {
    const { short, long, silent, spoken } = this.vocabulary;
    const start = this.states.cut(cut, depth, short.longest);
    let part = this.shorts.get(start);
    if (part === undefined) {
      part = this.walked(short, start, new Uint32Array(silent.length));
      this.shorts.set(start, part);
    }
    const both = part && this.walked(long, cut, part.mask.slice());
    if (!part || !both) return null;
    if (this.isFree(cut)) {
      for (const [i, word] of silent.entries()) both.mask[i] = (both.mask[i] ?? 0) | word;
      if (part.count + both.count === spoken) this.full.add(both.mask);
    }
    return both.mask;
  }

  /** The mask with the tokens of a trie that may come, and how many those are. */
  private walked(trie: Trie, start: State, mask: Uint32Array): Part | null {
    const { count: end, bytes, depths, after, tokens } = trie;
    const { same } = this.vocabulary;
    const { classes } = this.automaton;
    const path: State[] = [start];
    let count = 0;
    let at = 0;
    while (at < end) {
      const depth = depths[at] ?? 0;
      const from = path[depth - 1] ?? start;
      const cls = classes[bytes[at] ?? 0] ?? 0;
      let to = from.row[cls];
      if (to === undefined) to = this.states.next(from, cls);
      if (to === BELOW) return null;
      if (to === null) {
        at = after[at] ?? end;
        continue;
      }
      path[depth] = to;
      for (let token = tokens[at] ?? -1; token >= 0; token = same[token] ?? -1) {
        mask[token >>> 5] = (mask[token >>> 5] ?? 0) | (1 << (token & 31));
        count += 1;
      }
      at += 1;
    }
    return { mask, count };
  }

  private tidy(): void {
    const each = 4 * this.vocabulary.silent.length + BYTES_OF_STATE;
    if ((this.wholes.size + this.shorts.size) * each < MAX_KEPT) return;
    this.wholes = new Map();
    this.shorts = new Map();
  }
}
