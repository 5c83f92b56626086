/** Who waits, who is prefilled, who decodes, and what memory each of them holds. */

import { EdgewiseError } from "../errors.ts";
import { type Footprint, pagesFor } from "../format/state.ts";
import type { Now } from "./metrics/record.ts";
import { type Lease, PrefixPages, placesOf } from "./prefix.ts";
import type { Sequence } from "./sequence.ts";
import { byTurn, passedBy } from "./turn.ts";

/** Requests that may wait for their turn. */
export const MAX_WAITING = 256;

/** A sequence, and for how many tokens it needs pages. */
export type Need = readonly [Sequence, number];

/** Sequences move from `waiting` to `prefilling` to `running`, and out when they have ended. */
export class Schedule {
  /** Those for whose prompts pages are looked for elsewhere: they do not wait yet. */
  readonly restoring = new Set<Sequence>();
  /** In the order of their turns. */
  waiting: readonly Sequence[] = [];
  prefilling: Sequence | null = null;
  running: Sequence[] = [];
  /** What is known of pages; others where memory is new. */
  memory: PrefixPages;
  private arrivals = 0;
  private slots: number[];
  private readonly slotCount: number;
  private readonly footprint: Footprint;
  private readonly context: number;

  /**
   * @param pages that there are.
   * @param slots most sequences that hold pages at once.
   * @param footprint what sequences need of pages.
   * @param context most tokens of a sequence, however many pages there are.
   * @param most pages that there may be, once there are more.
   */
  constructor(pages: number, slots: number, footprint: Footprint, context: number, most = pages) {
    this.footprint = footprint;
    this.context = context;
    this.memory = new PrefixPages(pages, footprint, most);
    this.slotCount = slots;
    this.slots = [...new Array(slots).keys()];
  }

  /** @throws EdgewiseError `engine.busy` where with so many more than `MAX_WAITING` would wait. */
  checkRoom(arriving = 1): void {
    this.forgetEnded();
    const waiting = this.waiting.length + this.restoring.size;
    if (waiting + arriving <= MAX_WAITING) return;
    throw new EdgewiseError(
      "engine.busy",
      `${waiting} requests are waiting already, and ${MAX_WAITING} may.`,
      "Wait until some of them are done.",
    );
  }

  /** Let these wait for their turn. */
  enqueue(sequences: readonly Sequence[]): void {
    for (const { turn } of sequences) if (turn.arrival < 0) turn.arrival = this.arrivals++;
    this.waiting = [...this.waiting, ...sequences].sort(byTurn);
  }

  /** Sequences that hold a slot and pages. */
  get holders(): Sequence[] {
    return this.prefilling ? [this.prefilling, ...this.running] : [...this.running];
  }

  /** Take their slots and pages from sequences that have ended. */
  retireEnded(): void {
    for (const sequence of this.holders) if (sequence.ended) this.retire(sequence);
  }

  /** Give the first that waits its slot and pages, if they are free and no other is prefilled. */
  admit(): void {
    this.forgetEnded();
    const [sequence] = this.waiting;
    const [slot] = this.slots;
    if (!sequence || slot === undefined || this.prefilling) return;
    const { total, kvLen } = sequence;
    const lease = this.leaseOf(sequence);
    if (!lease) {
      if (this.running.length > 0) return;
      this.refuse(sequence, total);
      this.admit();
      return;
    }
    const others = this.waiting.slice(1);
    passedBy(sequence, others);
    this.waiting = others.sort(byTurn);
    this.slots.shift();
    sequence.slot = slot;
    sequence.holding = lease.holding;
    sequence.begin(lease.cached);
    sequence.sent = lease.cached;
    sequence.written = lease.cached;
    sequence.prefilled = kvLen;
    this.prefilling = sequence;
  }

  /** Whether what is under way for one of these would be more than pages behind windows are counted for. */
  outrun(needs: readonly Need[]): boolean {
    const { bounded, step } = this.footprint;
    return bounded && needs.some(([{ written }, tokens]) => tokens - written > step);
  }

  /**
   * Give each pages for so many tokens; where too few are free nobody gets any: how many are missing. Who gets some gives
   * back those that lie behind its windows.
   */
  extend(needs: readonly Need[]): number {
    const wanting = needs
      .map(([sequence, tokens]) => {
        const pages = pagesFor(Math.min(tokens, sequence.total), this.footprint.pageTokens);
        return { sequence, more: pages - placesOf(sequence.holding) };
      })
      .filter(({ more }) => more > 0);
    if (wanting.length === 0) return 0;
    for (const { sequence } of wanting) {
      const { holding, written, prefilled } = sequence;
      this.memory.leave(holding, written, () => sequence.history(written), prefilled);
    }
    const groups = this.footprint.windows.length;
    const missing = wanting.reduce((sum, { more }) => sum + more * groups, -this.memory.obtainable);
    if (missing > 0) return missing;
    for (const { sequence, more } of wanting) this.memory.extend(sequence.holding, more);
    return 0;
  }

  /** There are so many pages now. */
  grow(pages: number): void {
    this.memory.grow(pages);
  }

  /** Have so few pages, or as many more as what is in them asks for: how many there are then. */
  shrink(least: number): number {
    return this.memory.shrink(least);
  }

  /** There will never be more pages than now: everybody has to do with them. */
  cap(): void {
    this.memory.most = this.memory.size;
    const all = [...this.holders, ...this.waiting, ...this.restoring];
    for (const one of all) one.shorten(this.mostTokens);
  }

  /** Let the one whose turn is last wait again; false where there is nobody else. */
  setBack(): boolean {
    const last = this.holders.length > 1 ? this.holders.sort(byTurn).at(-1) : null;
    if (!last) return false;
    this.retire(last);
    last.preempt();
    this.enqueue([last]);
    return true;
  }

  /** The one that is prefilled has its prompt in KV. */
  promote(): void {
    if (!this.prefilling) return;
    this.running.push(this.prefilling);
    this.prefilling = null;
  }

  /** End those that run, or else the first that waits, so that an error is never met again. */
  fail(error: EdgewiseError): void {
    const [first] = this.waiting;
    const concerned = this.holders.length > 0 ? this.holders : first ? [first] : [];
    for (const sequence of concerned) sequence.fail(error);
    this.retireEnded();
    this.forgetEnded();
  }

  /** End all that run and wait. What they hold is given back with `interrupt`. */
  failAll(error: EdgewiseError): void {
    for (const one of [...this.holders, ...this.waiting, ...this.restoring]) one.fail(error);
  }

  /** What is unfinished waits again: nothing is left of what they held. */
  interrupt(): void {
    const unfinished = [...this.running, ...(this.prefilling ? [this.prefilling] : [])];
    for (const sequence of unfinished) {
      this.retire(sequence);
      sequence.preempt();
    }
    this.enqueue(unfinished);
    this.forgetEnded();
  }

  /** Begin with memory that holds nothing. Nobody may hold pages. */
  renew(pages: number, most: number): void {
    const { queriedTokens, hitTokens } = this.memory;
    this.memory = new PrefixPages(pages, this.footprint, most);
    this.memory.queriedTokens = queriedTokens;
    this.memory.hitTokens = hitTokens;
  }

  /** Pages that there are. */
  get pages(): number {
    return this.memory.size;
  }

  /** Pages that there may be. */
  get most(): number {
    return this.memory.most;
  }

  /** Tokens that all pages there may be can hold. */
  get mostTokens(): number {
    return this.footprint.tokens(this.memory.most, this.context);
  }

  /** Pages that were promised to those that hold some, and that they have yet to get. */
  private get promised(): number {
    const owed = this.holders.map(({ total, holding }) => this.memory.owed(holding, total));
    return owed.reduce((sum, count) => sum + count, 0);
  }

  stats() {
    const { size, free, cached, queriedTokens, hitTokens } = this.memory;
    return {
      pages: size,
      pagesFree: free,
      pagesCached: cached,
      running: this.holders.filter((sequence) => !sequence.ended).length,
      waiting: [...this.restoring, ...this.waiting].filter((one) => !one.ended).length,
      prefixQueriedTokens: queriedTokens,
      prefixHitTokens: hitTokens,
    };
  }

  /** Pages and sequences as metrics have them. */
  now(): Now {
    const { pages, running, waiting } = this.stats();
    const kvTokens = this.holders.reduce((sum, { written }) => sum + written, 0);
    const pagesUsed = pages - this.memory.obtainable;
    return { pages, pagesUsed, running, waiting, kvTokens };
  }

  /** What is inconsistent about slots and pages, as sentences; empty where all is sound. */
  check(): string[] {
    const problems = this.memory.check(this.holders.map((sequence) => sequence.holding));
    const slots = [...this.slots, ...this.holders.map((sequence) => sequence.slot)];
    const sound = new Set(slots).size === this.slotCount && slots.length === this.slotCount;
    return sound ? problems : [...problems, `The slots are ${slots.join(", ")}.`];
  }

  /** Pages for a sequence: those that hold the beginning of it, and others; null where there are too few. */
  private leaseOf(sequence: Sequence): Lease | null {
    const { total, kvLen, leader, prompt, tokens } = sequence;
    // The last token is always computed: the first answer needs its logits.
    const adoptable = kvLen - 1;
    const history = sequence.history(kvLen);
    const leads = leader && tokens.length === 0 && this.running.includes(leader);
    const shared = leads ? Math.floor((prompt.length - 1) / this.footprint.pageTokens) : 0;
    if (
      leads &&
      this.memory.adoptable(history, adoptable) < shared &&
      this.memory.canFork(leader.holding, shared)
    ) {
      return this.memory.fork(leader.holding, shared, history.length, total, this.promised);
    }
    return this.memory.acquire(history, adoptable, total, this.promised);
  }

  private forgetEnded(): void {
    this.waiting = this.waiting.filter((sequence) => !sequence.ended);
  }

  private retire(sequence: Sequence): void {
    const { holding, failure, written, prefilled } = sequence;
    const history = sequence.history(written);
    if (failure) this.memory.discard(history, holding);
    else this.memory.retire(history, holding, prefilled);
    if (this.prefilling === sequence) this.prefilling = null;
    this.running = this.running.filter((other) => other !== sequence);
    this.slots = [...this.slots, sequence.slot].sort((a, b) => a - b);
    sequence.rewind();
  }

  /** Only memory that became smaller comes to this. */
  private refuse(sequence: Sequence, total: number): void {
    sequence.fail(
      new EdgewiseError(
        "device.memory",
        `The ${this.memory.most} pages of memory cannot hold ${total} tokens.`,
        "Choose a smaller maxTokens or a shorter prompt.",
      ),
    );
    this.forgetEnded();
  }
}
