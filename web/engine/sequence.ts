/** One prompt and what has become of it. */

import type { Completion, FinishReason } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import { RING } from "../format/abi.ts";
import { timingsOf, usageOf } from "./completion.ts";
import { type Constraint, Guide, misled } from "./constraint.ts";
import type { DrawnLogprob } from "./logprobs.ts";
import type { EndReason, RequestRecord } from "./metrics/record.ts";
import { type Holding, NOTHING } from "./prefix.ts";
import { type SamplingParams, without } from "./sampling.ts";
import { StopStrings } from "./stops.ts";
import { TextStream } from "./stream.ts";
import { newTurn } from "./turn.ts";

/** A prompt as token ids and how to go on from it. */
export interface Request {
  readonly prompt: readonly number[];
  readonly params: SamplingParams;
  /** How many tokens at the end of the prompt belong to the answer already; 0 where not given. */
  readonly begun?: number;
  /** Texts to be seen in the answer even where special tokens are, or are in, them. */
  readonly marks?: readonly string[];
  /** What the answer must follow. */
  readonly constraint?: Constraint | null;
  /** Turns of the conversation that the prompt lacks, for the completion to tell. */
  readonly droppedTurns?: number;
}

/** What a sequence needs of a tokenizer. */
export interface Streaming {
  stream(
    skipSpecialTokens: boolean,
    marks: readonly string[],
  ): { push(ids: Iterable<number>): string; finish(): string };
}

export interface SequenceOptions {
  /** Which of the choices of its request it is; the first leads the others. */
  readonly index?: number;
  readonly leader?: Sequence | null;
  readonly tokenizer: Streaming;
  /** The model's end tokens. */
  readonly eos: readonly number[];
  /** Most tokens of prompt and answer. */
  readonly context: number;
  /** Milliseconds. */
  readonly clock: () => number;
}

/** The state of one request. Times are milliseconds. */
export class Sequence {
  readonly prompt: readonly number[];
  /** The end of the prompt that belongs to the answer: its text is the beginning of the answer's. */
  readonly begun: readonly number[];
  readonly params: SamplingParams;
  /** Tokens to generate at most, the context taken into account. */
  maxTokens: number;
  readonly seed: bigint;
  readonly index: number;
  /** The first choice of its request, whose prompt it shares; null for that one. */
  readonly leader: Sequence | null;
  readonly pieces: TextStream;
  readonly completion: Promise<Completion>;
  /** Ids generated so far. */
  readonly tokens: number[] = [];
  /** How likely each of them was, where that was asked for. */
  readonly logprobs: DrawnLogprob[] = [];
  /** Null while unfinished. */
  finishReason: FinishReason | null = null;
  failure: EdgewiseError | null = null;

  readonly turn = newTurn();
  /** What its times are noted in; null where nobody counts. */
  private record: RequestRecord | null = null;
  /** Row of per-sequence state on the device while running, otherwise -1. */
  slot = -1;
  /** KV pages held while running, in the end for the prompt and `maxTokens`. */
  holding: Holding = NOTHING;
  /** Tokens whose KV the device was told to write, and those for which it has said it has. */
  sent = 0;
  written = 0;
  /** Tokens whose KV prefill wrote, or someone before. */
  prefilled = 0;
  /** Tokens asked for and not seen yet. */
  ahead = 0;
  /** Whether its last tokens are not drawn, but known: prefill has to read them. */
  known = false;
  /** Whether the device knows which tokens it has had, where penalties need that. */
  counted = false;
  /** Decode bursts so far. */
  bursts = 0;
  /** Tokens of the prompt that were in pages already; null before the first admission. */
  cached: number | null = null;
  prefillMs = 0;
  decodeMs = 0;

  private readonly guide: Guide | null;
  /** Whether its last token was one that had to be drawn. */
  private wasDue = false;
  /** How its tokens are drawn while it must not end. */
  private readonly unending: SamplingParams;
  private readonly droppedTurns: number;
  private ttftMs = 0;
  private readonly created: number;
  private readonly clock: () => number;
  private readonly ends: ReadonlySet<number>;
  private readonly detokenizer: ReturnType<Streaming["stream"]>;
  private readonly stops: StopStrings;
  private readonly texts: string[] = [];
  private readonly resolve: (completion: Completion) => void;
  private readonly reject: (error: EdgewiseError) => void;

  /**
   * @throws EdgewiseError `input.sampling` for more biases than there may be, end tokens that must not come counted;
   *   `input.begun` for an answer that does not follow its constraint.
   */
  constructor(request: Request, options: SequenceOptions) {
    const { tokenizer, eos, context, clock, index = 0, leader = null } = options;
    const { prompt, params, begun = 0, droppedTurns = 0, marks = [] } = request;
    const { constraint = null } = request;
    this.prompt = prompt;
    this.begun = prompt.slice(prompt.length - begun);
    this.guide = constraint && new Guide(constraint, this.begun);
    this.droppedTurns = droppedTurns;
    this.params = params;
    this.maxTokens = Math.min(params.maxTokens, context - prompt.length);
    this.index = index;
    this.leader = leader;
    this.seed =
      leader?.seed ?? params.seed ?? crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;
    this.clock = clock;
    this.created = clock();
    this.ends = new Set([...params.stopTokenIds, ...(params.ignoreEos ? [] : eos)]);
    this.unending = params.minTokens > 0 ? without(params, this.ends) : params;
    this.detokenizer = tokenizer.stream(true, marks);
    this.stops = new StopStrings(params.stop);
    this.pieces = new TextStream(() => this.cancel());
    const { promise, resolve, reject } = withResolvers<Completion>();
    this.completion = promise;
    this.resolve = resolve;
    this.reject = reject;
    promise.catch(() => {}); // whoever asks for it still hears of it
    this.say(this.stops.push(this.detokenizer.push(this.begun)));
    if (this.guide?.ended) this.finish("stop");
    else this.force();
  }

  /** Note what becomes of it from now on. */
  note(record: RequestRecord): void {
    this.record = record;
    if (this.finishReason !== null) record.end(reasonOf(this.finishReason));
  }

  /** It begins to run, or goes on: so many of its tokens were in pages. */
  begin(cached: number): void {
    this.cached ??= cached;
    this.record?.start(cached);
  }

  /** What it holds is taken away; it waits again. */
  preempt(): void {
    this.record?.preempt();
  }

  get ended(): boolean {
    return this.finishReason !== null || this.failure !== null;
  }

  /** Whether it must not end yet. */
  get tooShort(): boolean {
    return this.begun.length + this.tokens.length < this.params.minTokens;
  }

  /** How its next token is drawn. */
  get drawing(): SamplingParams {
    return this.tooShort ? this.unending : this.params;
  }

  /** Whether its next token may not be any. */
  get masked(): boolean {
    try {
      return this.guide !== null && !this.guide.free;
    } catch {
      return true; // which is told where its mask is made
    }
  }

  /** The ids of the answer from the n-th on, those that it began with among them. */
  idsFrom(n: number): number[] {
    const { begun, tokens } = this;
    return n < begun.length ? [...begun.slice(n), ...tokens] : tokens.slice(n - begun.length);
  }

  /** Whether its tokens have to be seen before more are asked for: those may be drawn in another way. */
  get watched(): boolean {
    return this.guide !== null || this.tooShort;
  }

  /** Tokens that may come before they are seen: one where the next is likely to be drawn in another way. */
  get unseen(): number {
    if (this.tooShort || this.params.logprobs) return 1;
    // Under a mask: as many as the mask has been the same for, so that few are drawn in vain.
    return this.guide && this.masked ? Math.max(this.guide.steady, 1) : RING;
  }

  /** The tokens that may come next, a bit each, in so many words; null where all may. Throws as `Guide.mask`. */
  mask(words: number): Uint32Array | null {
    return this.guide?.mask(words, this.ends, this.tooShort) ?? null;
  }

  /** Whether only its prompt is to be read. */
  get wantsNone(): boolean {
    return this.params.maxTokens === 0;
  }

  /** Tokens in KV once the prompt is: all but the last one generated. */
  get kvLen(): number {
    return this.prompt.length + Math.max(this.tokens.length - 1, 0);
  }

  /** Tokens that have to be in KV before anything is drawn: all that are known, or all but the last. */
  get read(): number {
    return this.known ? this.prompt.length + this.tokens.length : this.kvLen;
  }

  /** Tokens of prompt and answer at most. */
  get total(): number {
    return this.prompt.length + this.maxTokens;
  }

  /** The `kvLen` at which the last token allowed has been generated. */
  get kvLimit(): number {
    return this.prompt.length + this.maxTokens - 1;
  }

  /** Tokens that may still be generated. */
  get remaining(): number {
    return this.maxTokens - this.tokens.length;
  }

  /** The first `count` tokens of prompt and answer. */
  history(count: number): number[] {
    const { length } = this.prompt;
    return [...this.prompt.slice(0, count), ...this.tokens.slice(0, Math.max(count - length, 0))];
  }

  /**
   * Take the tokens of a step or burst, and pass on the text they make certain.
   *
   * Ends the sequence where one of them does; tokens after that one are dropped.
   *
   * @param drawn how many a burst has drawn, all as the first of them had to be. Those are dropped that come after the
   *   one from which on another may come, or must.
   * @param logprobs how likely each was, where it wants to be told.
   * @returns whether some are to be drawn again.
   */
  accept(tokens: readonly number[], drawn = 0, logprobs: readonly DrawnLogprob[] = []): boolean {
    if (this.ended || tokens.length === 0) return false;
    if (this.tokens.length === 0) this.ttftMs = this.clock() - this.created;
    const before = this.tokens.length;
    let text = "";
    let reason: FinishReason | null = null;
    let again = false;
    for (const [at, token] of tokens.entries()) {
      this.tokens.push(token);
      this.logprobs.push(...logprobs.slice(at, at + 1));
      if (this.ends.has(token)) reason = "stop";
      else text += this.stops.push(this.detokenizer.push([token]));
      if (reason === null && this.guided(token)) reason = "stop";
      if (this.failure) return false;
      if (this.stops.found !== null) reason = "stop";
      else if (reason === null && this.remaining === 0) reason = "length";
      again = reason === null && at + 1 < drawn && !this.goesOn();
      if (reason !== null || again) break;
    }
    if (again) this.counted = false; // the device has counted what is dropped
    if (reason !== null) {
      text += this.stops.push(this.detokenizer.finish()) + this.stops.finish();
      // A stop string is perhaps in characters that were held back.
      if (this.stops.found !== null) reason = "stop";
    }
    this.say(text);
    this.record?.take(this.tokens.length - before);
    if (reason !== null) this.finish(reason);
    return again;
  }

  /**
   * Take the tokens that must come next: prefill reads them, nobody draws them. Where it is to be told how likely they
   * are they are drawn, one at a time.
   */
  force(): void {
    if (this.ended || this.wantsNone || this.wasDue || this.guide?.due.length) return;
    const forced = this.forced();
    if (forced.length === 0) return;
    if (this.params.logprobs) {
      this.guide?.draw(forced);
      return;
    }
    this.sent = Math.max(this.sent, this.written);
    this.known = true;
    this.counted = false; // the device does not hear of them
    this.accept(forced);
  }

  /** Prompt and answer have so many tokens at most from now on; it ends where it has them. */
  shorten(total: number): void {
    if (this.wantsNone) return;
    this.maxTokens = Math.max(Math.min(this.maxTokens, total - this.prompt.length), 1);
    if (this.ended || this.remaining > 0) return;
    const text = this.stops.push(this.detokenizer.finish()) + this.stops.finish();
    this.texts.push(text);
    this.pieces.push(text);
    this.finish(this.stops.found === null ? "length" : "stop");
  }

  /** Its prompt is in KV: that is the end of one that was to give no tokens. */
  wasRead(): void {
    if (this.wantsNone && !this.ended) this.finish("length");
  }

  /** End an unfinished sequence where it is. */
  cancel(): void {
    if (!this.ended) this.finish("cancelled");
  }

  /** End an unfinished sequence with an error. */
  fail(error: EdgewiseError): void {
    if (this.ended) return;
    this.failure = error;
    this.record?.end("error");
    this.pieces.end(error);
    this.reject(error);
  }

  /** Forget what a lost device held: the sequence begins again with its tokens so far. */
  rewind(): void {
    this.slot = -1;
    this.holding = NOTHING;
    this.sent = 0;
    this.written = 0;
    this.prefilled = 0;
    this.ahead = 0;
    this.known = false;
    this.counted = false;
    this.bursts = 0;
  }

  private forced(): readonly number[] {
    try {
      return this.guide?.forced ?? [];
    } catch (cause) {
      this.fail(misled(cause));
      return [];
    }
  }

  /** Take a token into what the answer follows; whether it ends there. One that may not come fails it. */
  private guided(token: number): boolean {
    if (!this.guide) return false;
    try {
      this.wasDue = this.guide.due.length > 0;
      if (this.guide.follow(token)) return this.guide.ended;
      this.fail(refused(token));
    } catch (cause) {
      this.fail(misled(cause));
    }
    return false;
  }

  /** Whether its next token is drawn as the last one was. */
  private goesOn(): boolean {
    try {
      return this.guide?.goesOn(this.ends) ?? true;
    } catch {
      return false; // which is told where its mask is made
    }
  }

  private say(text: string): void {
    this.texts.push(text);
    this.pieces.push(text);
  }

  private finish(finishReason: FinishReason): void {
    this.finishReason = finishReason;
    this.record?.end(reasonOf(finishReason));
    const { ttftMs, prefillMs, decodeMs } = this;
    const usage = usageOf(this.prompt.length, this.cached ?? 0, this.tokens.length);
    this.pieces.end();
    const text = this.texts.join("");
    this.resolve({
      text,
      written: text,
      reasoning: "",
      toolCalls: [],
      tokenIds: [...this.begun, ...this.tokens],
      finishReason,
      usage,
      timings: timingsOf({ ttftMs, prefillMs, decodeMs }, usage),
      seed: String(this.seed),
      contextFull: finishReason === "length" && this.maxTokens < this.params.maxTokens,
      droppedTurns: this.droppedTurns,
    });
  }
}

function reasonOf(finishReason: FinishReason): EndReason {
  return finishReason === "tool_calls" ? "stop" : finishReason;
}

/** What no correct program draws. */
function refused(token: number): EdgewiseError {
  return new EdgewiseError(
    "device.output",
    `The device gave the token ${token}, which may not come there.`,
    "Run the self-test; another program of the bundle may work on this device.",
  );
}

/** As `Promise.withResolvers`, which Node 20 does not have. */
function withResolvers<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
