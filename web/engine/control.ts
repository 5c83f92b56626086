/**
 * Special tokens that somebody has written out, told from those that a chat template writes: by the rules
 * of Python's `text/control.py`, which are those of transformers' `sanitize_control_tokens`.
 *
 * What a template is given has its control tokens hidden: digits that nobody can guess stand for each, and
 * templates pass digits on as they are. So in the prompt that comes out every control token is the template's
 * own. What lies between hidden ones is tokenized as ever, and they themselves as the text that they are.
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
const THOUGHTS = ["<think>", "</think>"];
/** A character that is none, and never will be. */
const UNKNOWN = "\u{10fffe}";

/** What of a tokenizer control tokens are told by. */
export interface Controlled {
  /** The tokens that are looked for before anything else is done with a text. */
  readonly addedTokens: readonly AddedToken[];
  /** Whether some of them are looked for in normalized text. */
  readonly normalizesAdded: boolean;
  encode(text: string, addSpecialTokens?: boolean): number[];
  /** Ids of a text in which no added tokens are looked for. */
  encodePlainly(text: string): number[];
}

/** What is known of a chat template. */
export interface Written {
  readonly source: string;
  /** What it makes of a plain conversation. */
  plainly(): string;
}

interface Known {
  /** Every control token, numbered. */
  readonly numbers: ReadonlyMap<string, number>;
  readonly contents: readonly string[];
  /** Those that answers may have in them. */
  readonly answered: ReadonlySet<string>;
  /** Ids of control tokens, without what any text may hold: the one for unknown characters. */
  readonly ids: ReadonlyMap<number, string>;
}

/**
 * What of a conversation's texts is control: only what the template has written.
 *
 * Control tokens are a tokenizer's special tokens, and those of its other added tokens that the template's
 * source has in it, white space aside. In answers only those that the template writes around messages are, so
 * that what a model writes itself (a call of a tool, a thought) stays what it was.
 */
export class ControlTokens {
  private readonly tokenizer: Controlled;
  private readonly written: Written;
  private readonly mark = digits(MARK_DIGITS);
  private readonly hidden = new RegExp(`${this.mark}(\\d{${INDEX_DIGITS}})`, "g");
  private readonly literal = new Map<number, readonly number[]>();
  private trie: Trie | null = null;
  private found: Known | null = null;

  constructor(tokenizer: Controlled, written: Written = { source: "", plainly: () => "" }) {
    this.tokenizer = tokenizer;
    this.written = written;
  }

  /** Messages as they are given to a template; what is no message stays what it is. */
  hide(messages: readonly Message[]): readonly Message[] {
    if (!Array.isArray(messages)) return messages;
    return messages.map((message: Message) => {
      if (!isObject(message)) return message;
      const kept = message.role === "assistant" ? this.known().answered : new Set<string>();
      const entries = Object.entries(message).map(([key, value]) => [
        key,
        this.without(value, kept, 0),
      ]);
      return Object.fromEntries(entries) as unknown as Message;
    });
  }

  /** A value with the control tokens hidden in all text of it. */
  hideIn<T>(value: T): T {
    return this.without(value, new Set(), 0) as T;
  }

  /** A text with what is hidden in it as it was. */
  shown(text: string): string {
    return text.replace(this.hidden, (_, index: string) => this.contentOf(Number(index)));
  }

  /**
   * The ids of a prompt, without what a post-processor adds.
   *
   * @throws EdgewiseError `input.special_tokens` where the tokenizer makes a control token of text all the
   *   same, and what `Tokenizer.encode` throws.
   */
  encode(prompt: string): number[] {
    const { tokenizer } = this;
    const encode = (text: string) => tokenizer.encode(text, false);
    const [first = "", ...rest] = prompt.split(this.hidden);
    const ids = encode(first);
    for (let i = 0; i < rest.length; i += 2) {
      const text = rest[i + 1] ?? "";
      const more = text === "" ? [] : this.goingOn(encode, text);
      for (const id of this.asText(Number(rest[i]))) ids.push(id);
      for (const id of more) ids.push(id);
    }
    if (tokenizer.normalizesAdded) this.check(prompt, ids);
    return ids;
  }

  /** The ids of a control token that is text. */
  private asText(index: number): readonly number[] {
    const known = this.literal.get(index);
    if (known) return known;
    const encode = (text: string) => this.tokenizer.encodePlainly(text);
    const ids = this.goingOn(encode, this.contentOf(index));
    const forged = ids.find((id) => this.known().ids.has(id));
    if (forged !== undefined) throw this.refused(forged);
    this.literal.set(index, ids);
    return ids;
  }

  /** The ids of a text that does not begin one: some tokenizers put a space before those. */
  private goingOn(encode: (text: string) => number[], text: string): readonly number[] {
    const newline = this.tokenizer.encode("\n", false);
    const ids = encode(`\n${text}`);
    return newline.every((id, i) => id === ids[i]) ? ids.slice(newline.length) : encode(text);
  }

  /** More control tokens than the template has written there can be where texts are normalized before. */
  private check(prompt: string, ids: readonly number[]): void {
    const left = new Map<string, number>();
    const add = (token: string, count: number) => left.set(token, (left.get(token) ?? 0) + count);
    withTokens(prompt, this.tokens(), (token) => {
      add(token, 1);
      return token;
    });
    for (const id of ids) {
      const token = this.known().ids.get(id);
      if (token === undefined) continue;
      add(token, -1);
      if ((left.get(token) ?? 0) < 0) throw this.refused(id);
    }
  }

  private without(value: unknown, kept: ReadonlySet<string>, depth: number): unknown {
    if (typeof value === "string") {
      return withTokens(value, this.tokens(), (token) => {
        const number = this.known().numbers.get(token);
        if (number === undefined || kept.has(token)) return token;
        return this.mark + String(number).padStart(INDEX_DIGITS, "0");
      });
    }
    if (depth >= MAX_DEPTH || typeof value !== "object" || value === null) return value;
    const inside = (item: unknown) => this.without(item, kept, depth + 1);
    if (Array.isArray(value)) return value.map(inside);
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [inside(key), inside(item)]),
    );
  }

  private contentOf(number: number): string {
    return this.known().contents[number] ?? "";
  }

  private tokens(): Trie {
    this.trie ??= trieOf(this.tokenizer.addedTokens.map(({ content }) => content));
    return this.trie;
  }

  private known(): Known {
    this.found ??= this.find();
    return this.found;
  }

  private find(): Known {
    const { tokenizer, written } = this;
    const added = tokenizer.addedTokens.filter(({ content }) => content !== "");
    const around = new Set<string>();
    withTokens(written.plainly(), this.tokens(), (token) => {
      if (token.trim() !== "") around.add(token);
      return token;
    });
    const firm = ({ special, content }: AddedToken) => special || around.has(content);
    const named = ({ content }: AddedToken) =>
      content.trim() !== "" && written.source.includes(content);
    const controls = added.filter((token) => firm(token) || named(token));
    const contents = [...new Set(controls.map(({ content }) => content))].sort();
    const answered = controls.filter((token) => !firm(token)).map(({ content }) => content);
    const unknown = new Set(tokenizer.encode(UNKNOWN, false));
    const known = controls.filter(({ id }) => !unknown.has(id));
    return {
      numbers: new Map(contents.map((content, i) => [content, i])),
      contents,
      answered: new Set([...THOUGHTS, ...answered]),
      ids: new Map(known.map(({ id, content }) => [id, content])),
    };
  }

  private refused(id: number): EdgewiseError {
    return new EdgewiseError(
      "input.special_tokens",
      "A message has text that this model's tokenizer takes for the special token " +
        `${shorten(this.known().ids.get(id))}.`,
      'Write it in other words, or pass specialTokens: "control" if it is meant.',
    );
  }
}

function digits(count: number): string {
  return [...crypto.getRandomValues(new Uint32Array(count))].map((n) => n % 10).join("");
}
