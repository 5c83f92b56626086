/** What is noted about a request and about a step. Times are seconds. As Python's `engine/records.py`. */

/**
 * `queued`: not yet begun; `prefill`: begun, until a token comes; `decode`: from that token on; `preempted`: its pages
 * were taken away, and it waits to be prefilled again.
 */
export type Phase = "queued" | "prefill" | "decode" | "preempted";

/** Why a request ended: a finish reason, or it failed. */
export type EndReason = "stop" | "length" | "cancelled" | "timeout" | "error";

/** Work that the device has done. */
export interface Step {
  readonly startedS: number;
  readonly seconds: number;
  /** The most tokens that it might have computed. */
  readonly budget: number;
  readonly prefillTokens: number;
  /** A burst counts all of its tokens. */
  readonly decodeTokens: number;
  readonly draftTokens: number;
  /** Tokens decoded for each row without the host looking, 0 where nothing decoded. */
  readonly burst: number;
  readonly batch: number;
}

/** Pages and sequences at one moment. */
export interface Now {
  readonly running: number;
  readonly waiting: number;
  readonly pages: number;
  readonly pagesUsed: number;
  readonly kvTokens: number;
}

/** Who hears what becomes of requests. */
export interface Listener {
  /** It is in another phase than before. */
  moved(record: RequestRecord): void;
  started(record: RequestRecord, first: boolean): void;
  took(record: RequestRecord, count: number, waitS: number | null): void;
  preempted(): void;
  ended(record: RequestRecord, reason: EndReason): void;
}

/** A request from its arrival to its end. */
export class RequestRecord {
  readonly id: number;
  readonly promptTokens: number;
  readonly queuedS: number;
  /** Null once it has ended. */
  phase: Phase | null = "queued";
  /** When it was last heard of. */
  eventS: number;
  startedS: number | null = null;
  firstS: number | null = null;
  lastS = 0;
  completionTokens = 0;
  preemptions = 0;
  cachedTokens = 0;
  private readonly listener: Listener;
  private readonly seconds: () => number;

  constructor(id: number, promptTokens: number, seconds: () => number, listener: Listener) {
    this.id = id;
    this.promptTokens = promptTokens;
    this.seconds = seconds;
    this.listener = listener;
    this.queuedS = seconds();
    this.eventS = this.queuedS;
  }

  /** It begins to run, or goes on after a preemption; so many tokens of its prompt were in pages. */
  start(cached: number): void {
    this.enter("prefill");
    const first = this.startedS === null;
    if (first) {
      this.startedS = this.eventS;
      this.cachedTokens = cached;
    }
    this.listener.started(this, first);
  }

  /** So many tokens have come out, together. */
  take(count: number): void {
    if (count <= 0 || this.phase === null) return;
    this.enter("decode");
    this.completionTokens += count;
    const wait = this.firstS === null ? null : this.eventS - this.lastS;
    this.firstS ??= this.eventS;
    this.lastS = this.eventS;
    this.listener.took(this, count, wait);
  }

  /** Its pages were taken away; it waits. */
  preempt(): void {
    if (this.phase === null) return;
    this.enter("preempted");
    this.preemptions += 1;
    this.listener.preempted();
  }

  /** It has ended. Saying so again changes nothing. */
  end(reason: EndReason): void {
    if (this.phase === null) return;
    this.eventS = Math.max(this.eventS, this.seconds());
    this.phase = null;
    this.listener.ended(this, reason);
  }

  private enter(phase: Phase): void {
    this.eventS = Math.max(this.eventS, this.seconds());
    if (this.phase === phase) return;
    this.phase = phase;
    this.listener.moved(this);
  }
}
