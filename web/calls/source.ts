/**
 * A model's text while it comes, read by generators that wait where more of it is needed. As in Python's
 * `calls/source.py`.
 *
 * A reader (one of each format) is a generator that yields, nothing, whenever it needs text that has not come. It
 * decides by characters and never by where pieces end, so the same text gives the same deltas however it is cut.
 */

import type { Delta, Why } from "./deltas.ts";
import { JsonScanner } from "./json-scanner.ts";

/** Characters of one call with its marks, which are kept in case it turns out to be none. */
export const MAX_CALL = 1 << 20;
/** Characters of a tool's name, and of other words. */
export const MAX_NAME = 128;
/** Characters of white space that are held back because a call may follow. */
export const MAX_SPACE = 256;
export const SPACE = " \t\n\r";

/** Names of tools: no white space, and none of the characters that formats are made of. */
export const NAME = /[0-9A-Za-z_./\u{a1}-\u{ff5b}\u{ff5d}-\u{10ffff}-]+/uy;

/** Whether a text can be the name of a tool. */
export function isName(text: string): boolean {
  NAME.lastIndex = 0;
  return text.length <= MAX_NAME && NAME.exec(text)?.[0] === text;
}

/** A reader at work; it returns once it has read its part. */
export type Reading<T> = Generator<undefined, T, undefined>;
export type Sink = (text: string) => void;
/** JSON schemas of the arguments of tools, by name. */
export type Tools = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** What began as a call is none; caught where the call began, and never seen outside. */
export class NotACallError extends Error {
  readonly why: Why;

  constructor(why: Why = "malformed") {
    super(why);
    this.why = why;
  }
}

/** The text that is read, and the deltas that it turns into. */
export class Source {
  /** What may be called, where it is known. */
  readonly tools: Tools | null;
  deltas: Delta[] = [];
  ended = false;
  private readonly newId: () => string;
  private text = "";
  private at = 0;
  /** White space of the answer that may stand before a call. */
  private space = "";
  /** Nothing but white space since a call. */
  private edge = false;
  /** What was read since a call began. */
  private raw: string[] | null = null;
  private rawSize = 0;
  private index = -1;
  private calling = false;

  constructor(tools: Tools | null, newId: () => string) {
    this.tools = tools;
    this.newId = newId;
  }

  /** Add the next piece of text. */
  push(text: string): void {
    this.text = this.text.slice(this.at) + text;
    this.at = 0;
  }

  // Reading: each of these may wait for more text.

  /** The next character; empty at the end. */
  *peek(): Reading<string> {
    while (this.at === this.text.length && !this.ended) yield;
    return this.text.charAt(this.at);
  }

  /** Read a text if it is what comes next, else nothing. */
  *literal(text: string): Reading<boolean> {
    while (!this.text.startsWith(text, this.at)) {
      if (this.ended || !this.begins(text)) return false;
      yield;
    }
    this.take(text.length);
    return true;
  }

  /** Read the one of some texts that comes next; without one of them this is no call. */
  *expect(...texts: readonly string[]): Reading<string> {
    for (const text of texts) {
      if (yield* this.literal(text)) return text;
    }
    const cut = this.ended && texts.some((text) => this.begins(text));
    throw new NotACallError(cut ? "cut" : "malformed");
  }

  /** Read white space and a mark that may be missing; a part of it at the end, too. */
  *closing(text: string): Reading<boolean> {
    yield* this.spaces();
    if (yield* this.literal(text)) return true;
    if (this.ended && this.begins(text)) this.take(this.text.length - this.at);
    return false;
  }

  /** Read white space, if there is any. */
  *spaces(): Reading<void> {
    for (;;) {
      const next = yield* this.peek();
      if (!next || !SPACE.includes(next)) return;
      this.take(1);
    }
  }

  /** Read characters of a (sticky) pattern, one or more, `MAX_NAME` at most. */
  *word(pattern: RegExp = NAME): Reading<string> {
    let found = "";
    while (yield* this.peek()) {
      pattern.lastIndex = this.at;
      const run = pattern.exec(this.text)?.[0].length;
      if (run === undefined) break;
      found += this.take(Math.min(run, MAX_NAME + 1 - found.length));
      if (found.length > MAX_NAME) throw new NotACallError();
    }
    if (!found) throw new NotACallError((yield* this.peek()) ? "malformed" : "cut");
    return found;
  }

  /**
   * Read up to the first of some marks, none within another, and past it; return the mark, empty at the end of the
   * stream.
   *
   * @param most characters before the mark; with more of them this is no call.
   */
  *until(marks: readonly string[], sink: Sink, most?: number): Reading<string> {
    let left = most ?? Number.POSITIVE_INFINITY;
    const pattern = anyOf(marks);
    for (;;) {
      pattern.lastIndex = this.at;
      const found = pattern.exec(this.text);
      const kept = this.ended || found ? 0 : beginning(this.text, this.at, marks);
      const before = (found ? found.index : this.text.length - kept) - this.at;
      this.take(Math.min(before, left), sink);
      if (before > left) throw new NotACallError();
      left -= before;
      if (found) return this.take(found[0].length);
      if (this.ended) return "";
      yield;
    }
  }

  /** Read the answer up to the first of some marks, as `until` does. */
  *content(marks: readonly string[]): Reading<string> {
    this.raw = null;
    return yield* this.until(marks, (text) => this.say(text));
  }

  /** Read white space of the answer. */
  *blank(): Reading<void> {
    for (;;) {
      const next = yield* this.peek();
      if (!next || !SPACE.includes(next)) return;
      this.take(1, (text) => this.say(text));
    }
  }

  /** Read a JSON value. */
  *json(sink: Sink): Reading<void> {
    const scanner = new JsonScanner();
    for (;;) {
      this.take(scanner.push(this.text, this.at) - this.at, sink);
      if (this.ended && !scanner.failed) scanner.finish();
      if (scanner.done) return;
      if (scanner.failed || this.ended) {
        throw new NotACallError(scanner.failed ? "malformed" : "cut");
      }
      yield;
    }
  }

  /**
   * Read calls after the mark that began them; what is none comes out as "no call".
   *
   * @param bare nothing marks these calls as such; what is none is text of the answer.
   */
  *attempt(mark: string, calls: Reading<void>, bare = false): Reading<void> {
    this.raw = [mark];
    this.rawSize = mark.length;
    const { index } = this;
    try {
      yield* calls;
    } catch (error) {
      if (!(error instanceof NotACallError)) throw error;
      if (error.why === "cut") {
        this.raw.push(this.text.slice(this.at));
        this.at = this.text.length;
      }
      const raw = this.raw.join("");
      this.raw = null;
      if (bare && index === this.index) this.say(raw);
      else if (raw) this.sayNoCall(raw, error.why);
    }
    this.raw = null;
  }

  // What it turns into.

  /** Text of the answer; white space around calls is left out. */
  say(piece: string): void {
    let text = piece;
    if (this.edge) {
      text = text.slice(spaceBefore(text));
      this.edge = !text;
    }
    text = this.space + text;
    let said = withoutSpaceAfter(text);
    if (text.length - said.length > MAX_SPACE) said = text.slice(0, -MAX_SPACE);
    this.space = text.slice(said.length);
    if (said) this.deltas.push({ kind: "content", text: said });
  }

  /** Text of a thought. */
  think(text: string): void {
    if (text) this.deltas.push({ kind: "reasoning", text });
  }

  /**
   * A call begins.
   *
   * @param given the id that the model has given it.
   * @throws NotACallError that cannot be a tool's name.
   */
  begin(name: string, given = ""): void {
    if (!isName(name)) throw new NotACallError();
    this.space = "";
    this.calling = true;
    this.index += 1;
    this.deltas.push({
      kind: "call begins",
      index: this.index,
      id: given || this.newId(),
      name,
    });
  }

  /** The next piece of the arguments of the call that has begun. */
  arguments(text: string): void {
    if (text) this.deltas.push({ kind: "arguments", index: this.index, text });
  }

  /** The call that has begun is complete. */
  end(): void {
    this.deltas.push({ kind: "call ends", index: this.index });
    this.calling = false;
    this.edge = true;
    this.raw = [];
    this.rawSize = 0;
  }

  /** Nothing follows: what was held back is said. */
  finish(): void {
    if (this.space) this.deltas.push({ kind: "content", text: this.space });
    this.space = "";
  }

  private sayNoCall(text: string, why: Why): void {
    if (!this.calling) this.finish();
    this.deltas.push({ kind: "no call", index: this.calling ? this.index : null, text, why });
    this.calling = false;
    this.edge = false;
  }

  /** Whether all that has come, and is less, is the beginning of a text. */
  private begins(text: string): boolean {
    const left = this.text.length - this.at;
    return left < text.length && text.startsWith(this.text.slice(this.at));
  }

  /** Read as many characters; what is too long for a call is read as far as it may be. */
  private take(wanted: number, sink?: Sink): string {
    const limited = this.raw !== null && this.rawSize + wanted > MAX_CALL;
    const count = limited ? MAX_CALL - this.rawSize : wanted;
    const text = this.text.slice(this.at, this.at + count);
    this.at += count;
    if (this.raw) {
      this.raw.push(text);
      this.rawSize += count;
    }
    if (sink && text) sink(text);
    if (limited) throw new NotACallError("too long");
    return text;
  }
}

const PATTERNS = new Map<string, RegExp>();

function anyOf(marks: readonly string[]): RegExp {
  const source = marks.map((mark) => mark.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|");
  let pattern = PATTERNS.get(source);
  if (!pattern) {
    pattern = new RegExp(source, "g");
    PATTERNS.set(source, pattern);
  }
  return pattern;
}

/** How many of the last characters of a text are the beginning of a mark, at most. */
function beginning(text: string, start: number, marks: readonly string[]): number {
  const longest = Math.max(...marks.map((mark) => mark.length));
  for (let size = Math.min(text.length - start, longest - 1); size > 0; size--) {
    const end = text.slice(text.length - size);
    if (marks.some((mark) => mark.startsWith(end))) return size;
  }
  return 0;
}

function spaceBefore(text: string): number {
  let at = 0;
  while (at < text.length && SPACE.includes(text.charAt(at))) at++;
  return at;
}

export function withoutSpaceAfter(text: string): string {
  let end = text.length;
  while (end > 0 && SPACE.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

export function withoutSpace(text: string): string {
  return withoutSpaceAfter(text.slice(spaceBefore(text)));
}
