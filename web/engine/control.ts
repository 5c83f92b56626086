/**
 * Special tokens that somebody has written out, told from those that a chat template writes: by the rules
 * of Python's `text/control.py`.
 *
 * What a template is given has its special tokens hidden: digits that nobody can guess stand for each, and
 * templates pass digits on as they are. So in the prompt that comes out every special token is the template's
 * own. One with something hidden is tokenized by a copy of the tokenizer that knows the template's special
 * tokens by other names, so that they are found exactly as ever and the others are text.
 */

import type { Message } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { isObject } from "./json.ts";
import type { AddedToken } from "./tokens.ts";
import { type Trie, trieOf, withTokens } from "./trie.ts";

const MARK_DIGITS = 24;
const INDEX_DIGITS = 7;
/** Deeper values are nothing that a template reads. */
const MAX_DEPTH = 64;
/** What templates look for in earlier answers, to leave their thoughts out. */
const THOUGHTS: readonly string[] = ["<think>", "</think>"];
/** A character that is none, and never will be. */
const UNKNOWN = "\u{10fffe}";

/** What of a tokenizer control tokens are told by. */
export interface Controlled {
  /** The tokens that are looked for before anything else is done with a text. */
  readonly addedTokens: readonly AddedToken[];
  /** Whether some of them are looked for in normalized text. */
  readonly normalizesAdded: boolean;
  encode(text: string, addSpecialTokens?: boolean): number[];
  /** Ids of a text in which some added tokens go by other names, and are text by their own. */
  literal(names: ReadonlyMap<string, string>): (text: string) => LiteralIds;
}

/** Ids of a text, and which of them those names stand for. */
export interface LiteralIds {
  readonly ids: readonly number[];
  readonly named: readonly boolean[];
}

interface Known {
  /** Every control token, numbered. */
  readonly controls: ReadonlyMap<string, number>;
  readonly contents: readonly string[];
  /** Ids of control tokens, without what any text may hold: the one for unknown characters. */
  readonly ids: ReadonlyMap<number, string>;
}

/**
 * What of a conversation's texts is control: only what the template has written.
 *
 * Control tokens are a tokenizer's special tokens, and those of its other added tokens that the template itself
 * writes around messages.
 */
export class ControlTokens {
  private readonly tokenizer: Controlled;
  private readonly written: () => string;
  private readonly mark = digits(MARK_DIGITS);
  private readonly hidden = new RegExp(`${this.mark}(\\d{${INDEX_DIGITS}})`, "g");
  private trie: Trie | null = null;
  private known: Known | null = null;
  private read: { names: ReadonlyMap<string, string>; ids: (text: string) => LiteralIds } | null =
    null;

  /** @param written returns what the template makes of some plain conversation. */
  constructor(tokenizer: Controlled, written: () => string = () => "") {
    this.tokenizer = tokenizer;
    this.written = written;
  }

  /**
   * Messages as they are given to a template; what is no message stays what it is.
   *
   * The marks of thoughts in earlier answers are left to the template.
   */
  hide(messages: readonly Message[]): readonly Message[] {
    if (!Array.isArray(messages)) return messages;
    return messages.map((message: Message) => {
      if (!isObject(message)) return message;
      const kept = message.role === "assistant" ? THOUGHTS : [];
      const entries = Object.entries(message).map(([key, value]) => [
        key,
        this.without(value, kept, 0),
      ]);
      return Object.fromEntries(entries) as unknown as Message;
    });
  }

  /** A text with what is hidden in it as it was. */
  shown(text: string): string {
    const { contents } = this.controls();
    return text.replace(this.hidden, (all, index: string) => contents[Number(index)] ?? all);
  }

  /**
   * The ids of a prompt, without what a post-processor adds.
   *
   * @throws EdgewiseError `input.special_tokens` where the tokenizer makes a control token of text all the
   *   same, and what `Tokenizer.encode` throws.
   */
  encode(prompt: string): number[] {
    if (!prompt.includes(this.mark)) {
      const ids = this.tokenizer.encode(prompt, false);
      if (this.tokenizer.normalizesAdded) this.check(prompt, ids);
      return ids;
    }
    const { names, ids: read } = this.literal();
    const named = withTokens(prompt, this.tokens(), (token) => names.get(token) ?? token);
    const { ids, named: own } = read(this.shown(named));
    const forged = ids.find((id, i) => !own[i] && this.controls().ids.has(id));
    if (forged !== undefined) throw this.refused(forged);
    return [...ids];
  }

  /** There may be more control tokens than the template has written where a text is normalized before. */
  private check(prompt: string, ids: readonly number[]): void {
    const counts = new Map<string, number>();
    const count = (token: string, by: number) => {
      counts.set(token, (counts.get(token) ?? 0) + by);
      return token;
    };
    withTokens(prompt, this.tokens(), (token) => count(token, 1));
    for (const id of ids) {
      const token = this.controls().ids.get(id);
      if (token === undefined) continue;
      count(token, -1);
      if ((counts.get(token) ?? 0) < 0) throw this.refused(id);
    }
  }

  private without(value: unknown, kept: readonly string[], depth: number): unknown {
    if (typeof value === "string") {
      return withTokens(value, this.tokens(), (token) => {
        const index = this.controls().controls.get(token);
        if (index === undefined || kept.includes(token)) return token;
        return this.mark + String(index).padStart(INDEX_DIGITS, "0");
      });
    }
    if (depth >= MAX_DEPTH || typeof value !== "object" || value === null) return value;
    const inside = (item: unknown) => this.without(item, kept, depth + 1);
    if (Array.isArray(value)) return value.map(inside);
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [inside(key), inside(item)]),
    );
  }

  private tokens(): Trie {
    this.trie ??= trieOf(this.tokenizer.addedTokens.map(({ content }) => content));
    return this.trie;
  }

  private controls(): Known {
    this.known ??= this.find();
    return this.known;
  }

  private find(): Known {
    const { tokenizer } = this;
    const special = tokenizer.addedTokens.filter((token) => token.special);
    const found = new Set(special.map(({ content }) => content));
    withTokens(this.written(), this.tokens(), (token) => {
      found.add(token);
      return token;
    });
    const contents = [...found].sort();
    const controls = new Map(contents.map((content, i) => [content, i]));
    const unknown = new Set(tokenizer.encode(UNKNOWN, false));
    const added = tokenizer.addedTokens.filter(({ content }) => controls.has(content));
    const ids = added.filter(({ id }) => !unknown.has(id)).map(({ id, content }) => [id, content]);
    return { controls, contents, ids: new Map(ids as [number, string][]) };
  }

  private literal() {
    if (!this.read) {
      const mark = digits(MARK_DIGITS);
      const entries = [...this.controls().controls].map(([content, i]) => [
        content,
        `<${mark}x${i}>`,
      ]);
      const names = new Map(entries as [string, string][]);
      this.read = { names, ids: this.tokenizer.literal(names) };
    }
    return this.read;
  }

  private refused(id: number): EdgewiseError {
    return new EdgewiseError(
      "input.special_tokens",
      "A message has text that this model's tokenizer takes for the special token " +
        `${shorten(this.controls().ids.get(id))}.`,
      'Write it in other words, or pass specialTokens: "control" if it is meant.',
    );
  }
}

function digits(count: number): string {
  return [...crypto.getRandomValues(new Uint32Array(count))].map((n) => n % 10).join("");
}
