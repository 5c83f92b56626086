/** Token ids of text, by the rules of a checkpoint's own tokenizer.json. */

import { EdgewiseError, shorten } from "../errors.ts";
import { checkedId, Detokenizer } from "./detokenize.ts";
import { isObject, type JsonObject, parseObject } from "./json.ts";
import { checkRules, MAX_ID, type Rules, type Vocabulary } from "./rules.ts";
import { bytesOfTokens } from "./token-bytes.ts";
import { Pipeline } from "./tokenizing/pipeline.ts";
import { type AddedToken, merged, registerTokens } from "./tokens.ts";

const MAX_TOKENIZER_BYTES = 64 << 20;
const MAX_CONTAINERS = 3 << 18;
/** More than the largest vocabularies have: 262,144 tokens and twice as many merges. */
const MAX_VALUES = 3 << 20;
/** Bytes of one string: eight times the longest table of characters that has been published. */
const MAX_STRING = 4 << 20;
/** Quotes inside strings: some vocabularies have thousands. */
const MAX_ESCAPED = 1 << 18;
/** Bytes of text after normalizing at most; a character is at least one. */
const MAX_TEXT = 32 << 20;
const MAX_CONFIG_BYTES = 16 << 20;
const NO_SPECIALS: ReadonlySet<string> = new Set();

/**
 * The tokenizer of one bundle.
 *
 * tokenizer.json decides everything about ids. From tokenizer_config.json come the tokens it adds
 * and the names templates know them by; `add_bos_token` there changes nothing, as in transformers,
 * because tokenizer.json's own post-processor already says whether a beginning token is added.
 */
export class Tokenizer {
  /** Name to text of the named special tokens, such as `bos_token` to `<s>`. */
  readonly specialTokens: ReadonlyMap<string, string>;
  /** The tokens that are looked for before anything else is done with a text. */
  readonly addedTokens: readonly AddedToken[];
  private readonly pipeline: Pipeline;
  private readonly ids: ReadonlyMap<string, number>;
  private readonly tokens: Map<number, string>;
  private readonly special: ReadonlySet<string>;
  private readonly decoder: unknown;
  private readonly rules: Rules;

  private constructor(json: JsonObject, config: JsonObject) {
    const entries = entriesOf(json.model);
    // Of two ids of one token texts get the last; both are read.
    const vocabulary: Vocabulary = new Map(entries);
    const rules = checkRules(json, vocabulary);
    const { added, special, named } = registerTokens(
      { ids: vocabulary, size: entries.length },
      json.added_tokens,
      config,
    );
    this.addedTokens = [...added.values()];
    this.pipeline = new Pipeline(json, vocabulary, this.addedTokens);
    this.ids = new Map([
      ...vocabulary,
      ...this.addedTokens.map(({ content, id }) => [content, id] as const),
    ]);
    this.tokens = new Map(entries.map(([token, id]) => [id, token]));
    for (const token of this.addedTokens) this.tokens.set(token.id, this.pipeline.written(token));
    this.special = special;
    this.specialTokens = named;
    this.rules = withTokens(rules, this.addedTokens);
    this.decoder = json.decoder;
    // Some contradictions only show when it is used.
    this.stream().push(this.pipeline.encode("a", true));
  }

  /**
   * @param tokenizerJson the bytes of tokenizer.json.
   * @param tokenizerConfig those of tokenizer_config.json, null where there is none.
   * @param specialTokensMap those of an older checkpoint's special_tokens_map.json.
   * @throws EdgewiseError `checkpoint.tokenizer` where they cannot be understood,
   *   `unsupported.tokenizer` and `unsupported.decoder` for a kind that cannot be used.
   */
  static fromFiles(
    tokenizerJson: Uint8Array,
    tokenizerConfig: Uint8Array | null,
    specialTokensMap: Uint8Array | null = null,
  ): Tokenizer {
    const json = read("tokenizer.json", () => {
      checkValues(tokenizerJson);
      return parseObject(tokenizerJson, MAX_TOKENIZER_BYTES);
    });
    const parsed = (name: string, file: Uint8Array | null) =>
      read(name, () => (file === null ? {} : parseObject(file, MAX_CONFIG_BYTES)));
    const given = parsed("tokenizer_config.json", tokenizerConfig);
    const older = "added_tokens_decoder" in given ? null : specialTokensMap;
    const config = merged(given, parsed("special_tokens_map.json", older));
    return read("tokenizer.json", () => new Tokenizer(json, config));
  }

  /**
   * The ids of `text`; special tokens written out in it become their ids.
   *
   * @param addSpecialTokens lets the post-processor add what it adds (a beginning token, say); false
   *   for text that comes from a chat template, which writes its own.
   * @throws EdgewiseError `input.text` for text that UTF-8 cannot hold, and for more of it than
   *   the tokenizer is given.
   */
  encode(text: string, addSpecialTokens = true): number[] {
    this.checkLength(text);
    if (typeof text !== "string" || /\p{Surrogate}/u.test(text)) {
      throw new EdgewiseError(
        "input.text",
        `Cannot tokenize ${shorten(text)}: it is not text that UTF-8 can hold.`,
        "Pass text without lone surrogates.",
      );
    }
    if (text === "" && !addSpecialTokens) return [];
    try {
      return this.pipeline.encode(text, addSpecialTokens).map(checkedId);
    } catch (cause) {
      throw EdgewiseError.from(
        cause,
        "checkpoint.tokenizer",
        `The tokenizer cannot tell the ids of ${shorten(text)}`,
      );
    }
  }

  /**
   * Whether `text` surely has more than so many tokens, told without tokenizing it.
   *
   * No token stands for more characters than the longest one has, as long as the rules leave none
   * out; where they may, this is false.
   */
  exceeds(text: string, tokens: number): boolean {
    const { reach, dropsSpaces } = this.rules;
    if (reach === null || text.length <= tokens * reach) return false;
    let characters = 0;
    for (const character of dropsSpaces ? text.replace(/\s+/gu, "") : text) {
      if (character !== "") characters += 1;
    }
    return characters > tokens * reach;
  }

  /**
   * The text of `ids`; ids outside the vocabulary have none.
   *
   * @throws EdgewiseError `input.token` for what cannot be an id.
   */
  decode(ids: Iterable<number>, skipSpecialTokens = false): string {
    const detokenizer = this.stream(skipSpecialTokens);
    return detokenizer.push(ids) + detokenizer.finish();
  }

  /**
   * A detokenizer that yields the same text as `decode`, id by id.
   *
   * @param marks texts that are to be seen: special tokens that one of them has in it are not skipped.
   */
  stream(skipSpecialTokens = true, marks: readonly string[] = []): Detokenizer {
    const tokenOf = (id: number) => this.tokens.get(id);
    const skipped = skipSpecialTokens ? this.hidden(marks) : NO_SPECIALS;
    return new Detokenizer({ tokenOf, decoder: this.decoder }, skipped);
  }

  /**
   * What each of so many ids adds to a text that has begun; null for one that no text is made of.
   *
   * @param marks see `stream`.
   * @param without ids of no text: those that end answers.
   * @throws EdgewiseError `unsupported.constraint` where tokens have no bytes of their own.
   */
  tokenBytes(
    size: number,
    marks: readonly string[] = [],
    without: ReadonlySet<number> = new Set(),
  ): (Uint8Array | null)[] {
    const bytesOf = bytesOfTokens(this.decoder);
    const hidden = this.hidden(marks);
    return Array.from({ length: size }, (_, id) => {
      const token = without.has(id) ? undefined : this.tokens.get(id);
      return token === undefined || hidden.has(token) ? null : bytesOf(token);
    });
  }

  /** The bytes of one token, special ones written out; as it is spelled where tokens have no bytes of their own. */
  speller(): (id: number) => Uint8Array {
    const encoder = new TextEncoder();
    let bytesOf = (token: string) => encoder.encode(token);
    try {
      bytesOf = bytesOfTokens(this.decoder) as typeof bytesOf;
    } catch (error) {
      if (!(error instanceof EdgewiseError)) throw error;
    }
    return (id) => {
      const token = this.tokens.get(id);
      return token === undefined ? new Uint8Array() : bytesOf(token);
    };
  }

  private hidden(marks: readonly string[]): ReadonlySet<string> {
    const shown = (token: string) => marks.some((mark) => mark.includes(token));
    return new Set([...this.special].filter((token) => !shown(token)));
  }

  /** Whether some added tokens are looked for in normalized text. */
  get normalizesAdded(): boolean {
    return this.pipeline.normalizer !== null && this.addedTokens.some((token) => token.normalized);
  }

  /**
   * The ids of a text by the model alone: no added tokens are looked for in it.
   *
   * @throws EdgewiseError `checkpoint.tokenizer` where the tokenizer's own rules fail on it.
   */
  encodePlainly(text: string): number[] {
    this.checkLength(text);
    return read("tokenizer.json", () => this.pipeline.encodePlainly(text).map(checkedId));
  }

  /** Refuse a text that rules could make too large. */
  private checkLength(text: string): void {
    const most = Math.floor(MAX_TEXT / this.rules.growth);
    if (typeof text !== "string" || text.length <= most) return;
    throw new EdgewiseError(
      "input.text",
      `The text has ${text.length} characters; this tokenizer is given ${most} at most.`,
      "Pass it in parts.",
    );
  }

  /** The id of one exact token. */
  idOf(token: string): number | undefined {
    return this.ids.get(token);
  }
}

/** What is known of the rules once tokens are added to them. */
function withTokens(rules: Rules, added: readonly AddedToken[]): Rules {
  const { reach } = rules;
  return {
    ...rules,
    reach: reach && added.reduce((most, { content }) => Math.max(most, content.length), reach),
    dropsSpaces: rules.dropsSpaces || added.some((token) => token.lstrip || token.rstrip),
  };
}

/** @throws RangeError for more values than any vocabulary needs: parsed they take many times more. */
function checkValues(json: Uint8Array): void {
  let containers = 0;
  let values = 0;
  let escaped = 0;
  let quote = -1;
  let longest = 0;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === 0x5b || byte === 0x7b) containers += 1;
    else if (byte === 0x2c) values += 1;
    else if (byte === 0x22) {
      if (json[at - 1] === 0x5c) {
        escaped += 1;
      } else {
        longest = Math.max(longest, at - quote);
        quote = at;
      }
    }
  }
  if (containers > MAX_CONTAINERS || values > MAX_VALUES) {
    throw new RangeError("it has more values than any vocabulary needs");
  }
  if (escaped > MAX_ESCAPED || Math.max(longest, json.length - quote) > MAX_STRING) {
    throw new RangeError("it has longer texts than any vocabulary needs");
  }
}

/** Every token and its id, of the models that state one; lists of pairs have their ids by their order. */
function entriesOf(model: unknown): readonly (readonly [string, number])[] {
  const vocab = isObject(model) ? model.vocab : undefined;
  if (!Array.isArray(vocab) && !isObject(vocab)) throw new TypeError("it has no vocabulary");
  const entries: [string, unknown][] = Array.isArray(vocab)
    ? vocab.map((item: unknown, id) => [String(Array.isArray(item) ? item[0] : item), id])
    : Object.entries(vocab);
  return entries.map(([token, id]) => {
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id >= MAX_ID) {
      throw new TypeError(`the token ${shorten(token)} has the id ${shorten(id)}`);
    }
    return [token, id];
  });
}

function read<T>(file: string, body: () => T): T {
  try {
    return body();
  } catch (cause) {
    throw EdgewiseError.from(cause, "checkpoint.tokenizer", `${file} cannot be used`);
  }
}
