/**
 * When to guess tokens, and how many. Every position is drawn with the random number that plain decoding would use for
 * it: a guess is right where that gives the same token, so that drafts change how fast text comes, and not the text.
 */

import { Line } from "../fit.ts";
import { isPenalized } from "../sampling.ts";
import type { Sequence } from "../sequence.ts";
import { DraftLength } from "./length.ts";
import { Lookup } from "./lookup.ts";

/** A sequence and what may follow its last token. */
export interface Draft {
  readonly sequence: Sequence;
  readonly tokens: readonly number[];
}

/** With more sequences than these there are no drafts: a step of many rows has no arithmetic to spare. */
const MAX_BATCH = 4;
/** What a token to verify adds to a step, in such steps, until that has been measured. */
const VERIFYING = 0.15;
/** What a measured step counts for beside those before it. */
const RECENT = 0.2;

/** Guesses from the text itself. */
export function lookupDrafts(rows: number): Drafting {
  return new Drafting(rows);
}

interface Drafter {
  readonly lookup: Lookup;
  readonly length: DraftLength;
}

export class Drafting {
  /** Tokens that were guessed, and those of them that were right. */
  proposed = 0;
  accepted = 0;
  private readonly most: number;
  private readonly drafters = new WeakMap<Sequence, Drafter>();
  /** Milliseconds of steps that verify, by their rows, and of a step that does not; 0 before the first. */
  private readonly checks = new Line();
  private plain = 0;

  /** @param rows most rows of logits of a step. */
  constructor(rows: number) {
    this.most = rows;
  }

  /** What may follow each of these, all of whose tokens have been seen; nothing of those that have no draft. */
  drafts(running: readonly Sequence[]): readonly Draft[] {
    if (running.length > MAX_BATCH) return [];
    const asked = running
      .map((sequence) => ({ sequence, count: this.asked(sequence) }))
      .sort((a, b) => a.count - b.count);
    const found: Draft[] = [];
    // Rows of logits are shared: what one does not want is there for the others.
    let left = this.most - running.length;
    for (const [at, { sequence, count }] of asked.entries()) {
      const k = Math.min(count, Math.floor(left / (asked.length - at)));
      const tokens = k > 0 ? this.drafterOf(sequence).lookup.propose(known(sequence), k) : [];
      if (tokens.length > 0) found.push({ sequence, tokens });
      left -= tokens.length;
    }
    return found;
  }

  /** Whether one of these is to have a draft as soon as its tokens have been seen: nobody should go on before that. */
  hopes(running: readonly Sequence[]): boolean {
    if (running.length > MAX_BATCH) return false;
    return running.some((sequence) => {
      if (!mayDraft(sequence)) return false;
      const { length, lookup } = this.drafterOf(sequence);
      const most = this.mostOf(sequence);
      return length.hopes(most, this.price) && lookup.propose(known(sequence), 1).length > 0;
    });
  }

  /** Take in what became of a draft. */
  observe({ sequence, tokens }: Draft, accepted: number): void {
    this.proposed += tokens.length;
    this.accepted += accepted;
    const { length } = this.drafterOf(sequence);
    length.observe(tokens.length, accepted, this.mostOf(sequence), this.price);
  }

  /** A step of so many rows that verified took so long, or so many plain ones did, milliseconds. */
  took(kind: "checks" | "plain", size: number, ms: number): void {
    if (kind === "checks") this.checks.add(size, ms);
    else this.plain += (this.plain > 0 ? RECENT : 1) * (ms / size - this.plain);
  }

  private readonly price = (k: number): number => {
    const { checks, plain } = this;
    if (checks.count === 0 || plain === 0) return 1 + VERIFYING * k;
    return (checks.latency + checks.cost * (k + 1)) / plain;
  };

  private asked(sequence: Sequence): number {
    if (!mayDraft(sequence)) return 0;
    return this.drafterOf(sequence).length.next(this.mostOf(sequence), this.price);
  }

  private mostOf({ remaining }: Sequence): number {
    return Math.max(Math.min(this.most - 1, remaining - 1), 0);
  }

  private drafterOf(sequence: Sequence): Drafter {
    const found = this.drafters.get(sequence);
    if (found) return found;
    const made = { lookup: new Lookup(), length: new DraftLength() };
    this.drafters.set(sequence, made);
    return made;
  }
}

/**
 * Whether what it draws depends on nothing but its tokens: penalties would have to count those of a draft one after the
 * other, and what a grammar allows after them is not made ahead.
 */
function mayDraft(sequence: Sequence): boolean {
  return !isPenalized(sequence.params) && !sequence.watched && sequence.tokens.length > 0;
}

function known({ prompt, tokens }: Sequence): readonly number[] {
  return [...prompt, ...tokens];
}
