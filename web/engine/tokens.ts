/**
 * The added tokens of a tokenizer: those of tokenizer.json, and what tokenizer_config.json adds.
 *
 * Follows what transformers 5 does with the files of a fast tokenizer. Tokens that the config
 * declares with all their properties (`added_tokens_decoder`) take the place of those of
 * tokenizer.json, in the order of ids. Of the tokens that it names or lists, those that are there
 * keep their properties: a plain string says nothing about white space beside it. New ones go to
 * the end.
 */

import { isObject, type JsonObject } from "./json.ts";

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean;
  readonly special: boolean;
}

type Flags = Omit<AddedToken, "id">;

const NAMED = [
  "bos_token",
  "eos_token",
  "unk_token",
  "sep_token",
  "pad_token",
  "cls_token",
  "mask_token",
];

export interface Registered {
  /** What is left out of texts: tokens that are special, or were before they were declared anew. */
  readonly special: ReadonlySet<string>;
  /** Every added token, by its content. */
  readonly added: ReadonlyMap<string, AddedToken>;
  /** The names templates know special tokens by, such as `bos_token`. */
  readonly named: ReadonlyMap<string, string>;
}

/**
 * A config with what an older checkpoint's special_tokens_map.json adds.
 *
 * @param older empty where the config declares its tokens: it is not read then.
 */
export function merged(config: JsonObject, older: JsonObject): JsonObject {
  const extra = orElse(config.extra_special_tokens, config.additional_special_tokens);
  const more: unknown = older.extra_special_tokens;
  const both = { ...config, ...older };
  if (!Array.isArray(extra)) return both;
  return { ...both, extra_special_tokens: [...extra, ...(Array.isArray(more) ? more : [])] };
}

/**
 * @param vocabulary token to id, without added tokens, and how many ids there are.
 * @param listed `added_tokens` of tokenizer.json.
 * @param config tokenizer_config.json, see `merged`.
 * @throws TypeError, in words, for what does not describe a token.
 */
export function registerTokens(
  vocabulary: { readonly ids: ReadonlyMap<string, number>; readonly size: number },
  listed: unknown,
  config: JsonObject,
): Registered {
  const added = new Map<string, AddedToken>();
  const special = new Set<string>();
  let highest = -1;
  const keep = (flags: Flags, id: number) => {
    highest = Math.max(highest, id);
    if (flags.special) special.add(flags.content);
    added.set(flags.content, { ...flags, id });
  };
  const add = (flags: Flags) => {
    if (flags.content === "") return;
    const known = added.get(flags.content)?.id ?? vocabulary.ids.get(flags.content);
    keep(flags, known ?? Math.max(highest + 1, vocabulary.size));
  };
  for (const item of Array.isArray(listed) ? listed : []) {
    if (!isObject(item)) throw new TypeError(`${JSON.stringify(item)} is not a token`);
    wholeOf(item.id); // checked, but as in the tokenizers package order and vocabulary decide
    add(flagsOf(item, false));
  }
  const { named, extra } = specialTokens(config);
  const names = new Set([...named.values()].map(contentOf));
  const declared = declaredTokens(config.added_tokens_decoder);
  for (const token of declared) {
    if (!isObject(token)) throw new TypeError(`${JSON.stringify(token)} does not declare a token`);
    add(flagsOf(token, names.has(contentOf(token))));
  }
  if (!("added_tokens_decoder" in config)) {
    for (const token of added.values()) if (names.has(token.content)) add(asSpecial(token));
  }
  for (const value of [...named.values(), ...extra]) {
    const content = contentOf(value);
    if (added.has(content)) continue;
    add(flagsOf(value, typeof value === "string" || names.has(content)));
  }
  if (new Set([...added.values()].map(({ id }) => id)).size < added.size) {
    throw new TypeError("two of its added tokens have one id");
  }
  return {
    added,
    special,
    named: new Map([...named].map(([name, value]) => [name, contentOf(value)])),
  };
}

const asSpecial = (token: AddedToken): Flags => ({ ...token, special: true });

/** `value`, or where there is nothing in it the other one. */
function orElse(value: unknown, other: unknown): unknown {
  const empty = !value || (isObject(value) ? Object.keys(value).length === 0 : value === "");
  return empty || (Array.isArray(value) && value.length === 0) ? other : value;
}

/** The tokens that a config declares, in the order of their ids. */
function declaredTokens(value: unknown): unknown[] {
  if (value === undefined || value === null) return [];
  if (!isObject(value)) throw new TypeError("added_tokens_decoder is not an object");
  return Object.entries(value)
    .map(([id, token]): [number, unknown] => [wholeOf(Number(id)), token])
    .sort(([a], [b]) => a - b)
    .map(([, token]) => token);
}

function specialTokens(config: JsonObject) {
  const named = new Map<string, unknown>();
  for (const name of NAMED) if (config[name]) named.set(name, config[name]);
  for (const [name, value] of Object.entries(config)) {
    const token = (typeof value === "string" && value !== "") || isObject(value);
    if (name.endsWith("_token") && !named.has(name) && token) named.set(name, value);
  }
  const listed = config.extra_special_tokens;
  if (isObject(listed)) for (const [name, value] of Object.entries(listed)) named.set(name, value);
  const formerly = config.additional_special_tokens;
  const extra = orElse(isObject(listed) ? [] : listed, formerly) ?? [];
  if (!Array.isArray(extra)) throw new TypeError(`${JSON.stringify(extra)} is no list of tokens`);
  return { named, extra };
}

/** What says nothing else is normalized unless it is special, as in the tokenizers package. */
function flagsOf(value: unknown, special: boolean): Flags {
  const content = contentOf(value);
  const given = isObject(value) ? value : {};
  const isSpecial = special || given.special === true;
  return {
    content,
    single_word: given.single_word === true,
    lstrip: given.lstrip === true,
    rstrip: given.rstrip === true,
    normalized: typeof given.normalized === "boolean" ? given.normalized : !isSpecial,
    special: isSpecial,
  };
}

function contentOf(value: unknown): string {
  const content = isObject(value) ? value.content : value;
  if (typeof content !== "string") throw new TypeError(`${JSON.stringify(content)} is not a token`);
  return content;
}

function wholeOf(id: unknown): number {
  if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < 2 ** 31) return id;
  throw new TypeError(`${JSON.stringify(id)} is not a token id`);
}
