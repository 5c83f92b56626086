/** Where an automaton goes on once rules and repetitions have ended: linked lists, each there once. */

import { EdgewiseError } from "../errors.ts";
import { ENDLESS } from "./automaton.ts";

/** Rules and repetitions within one another. */
const MAX_DEPTH = 1 << 16;

/** A frame and those below it. */
export interface Stack {
  /** Unlike that of any other stack, also of those that are forgotten. */
  readonly id: number;
  readonly depth: number;
  readonly below: Stack | null;
  /** The state after a rule; of a repetition, `~` its state. */
  readonly back: number;
  /** How often a repetition has to and may go on when its body has ended; 0 for a rule. */
  readonly least: number;
  readonly most: number;
}

/** Nothing is to follow. */
export const ROOT: Stack = { id: 0, depth: 0, below: null, back: 0, least: 0, most: 0 };
/** What is to follow is left out (`Stacks.cut`). */
export const BOTTOM: Stack = { ...ROOT, id: 1 };

export class Stacks {
  private made = new Map<number | string, Stack>();
  private next = 2;

  /** @param size places of the automaton. */
  constructor(private readonly size: number) {}

  get count(): number {
    return this.made.size;
  }

  /** @throws EdgewiseError `constraint.too_large` for too many frames. */
  push(below: Stack, back: number, least = 0, most = 0): Stack {
    const key = back < 0 ? `${below.id} ${back} ${least} ${most}` : below.id * this.size + back;
    const found = this.made.get(key);
    if (found) return found;
    const depth = below.depth + 1;
    if (depth > MAX_DEPTH) {
      throw new EdgewiseError(
        "constraint.too_large",
        `A text is more than ${MAX_DEPTH} rules and repetitions deep.`,
      );
    }
    const stack = { id: this.next, depth, below, back, least, most };
    this.next += 1;
    this.made.set(key, stack);
    return stack;
  }

  /**
   * The same for all texts of `length` bytes at most that do not come below `depth` frames: BOTTOM
   * is in the place of what is below them. Each time that a body goes on takes a byte, so counts
   * beyond `length` are `length`.
   */
  cut(stack: Stack, depth: number, length: number): Stack {
    const frames: Stack[] = [];
    let at = stack;
    while (at.below && frames.length < depth) {
      frames.push(at);
      at = at.below;
    }
    return frames.reduceRight(
      (below, { back, least, most }) =>
        this.push(below, back, Math.min(least, length), Math.min(most, length)),
      at.below ? BOTTOM : at,
    );
  }

  /** Forget what is there; stacks that are in use stay what they are. */
  clear(): void {
    this.made = new Map();
  }
}

/** Counts of a repetition once its body has ended and is to begin again. */
export function again(least: number, most: number): readonly [number, number] {
  return [Math.max(0, least - 1), most === ENDLESS ? ENDLESS : most - 1];
}
