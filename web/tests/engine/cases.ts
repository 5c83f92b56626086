/** The cases of tests/text, which Python wrote and is checked against too. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Message } from "../../client/types.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";

const ROOT = new URL("../../../", import.meta.url);
const DIGITS = 8;

export interface TokenCases {
  readonly folder: string;
  readonly special_tokens: Readonly<Record<string, string>>;
  /** Hashes, packed end to end. */
  readonly encoded: string;
  readonly plain: string;
  readonly decoded: string;
  readonly streamed: string;
  readonly ids: readonly (readonly number[] | null)[];
}

/** What a template writes, or the code of its error. */
export interface Outcome {
  readonly text?: string;
  readonly error?: string;
}

export interface TemplateCases {
  readonly now: string;
  readonly special_tokens: Readonly<Record<string, string>>;
  readonly conversations: readonly {
    readonly messages: readonly { readonly role: string; readonly content: string }[];
    readonly variables: Readonly<Record<string, unknown>>;
  }[];
  readonly templates: Readonly<Record<string, string>>;
  readonly rendered: Readonly<Record<string, readonly (readonly [Outcome, Outcome])[]>>;
  readonly wrong_templates: Readonly<Record<string, string>>;
  readonly wrong: Readonly<Record<string, Outcome>>;
}

/** A conversation in which special tokens are written out, and the ids of its prompt. */
export interface TurnCase {
  readonly tokenizer: string;
  /** Flags of added tokens that are others than in its folder. */
  readonly added: Readonly<Record<string, Readonly<Record<string, boolean>>>>;
  readonly template: string;
  readonly messages: readonly Message[];
  readonly prompt: string;
  readonly text: readonly number[];
  readonly control: readonly number[];
}

/** What templates mean, a thing at a time and at random, and what must be stopped. */
export interface JinjaCases {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly written: readonly (readonly [string, Outcome])[];
  readonly hostile_message: string;
  readonly hostile: Readonly<Record<string, string>>;
}

export function fileOf(path: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(path, ROOT)));
}

function casesOf<T>(name: string): T {
  return JSON.parse(new TextDecoder().decode(fileOf(`tests/text/${name}`)));
}

export const texts = casesOf<readonly string[]>("texts.json");
export const tokenCases = casesOf<Readonly<Record<string, TokenCases>>>("tokens.json");
export const turnCases = casesOf<readonly TurnCase[]>("turns.json");
export const jinjaCases = casesOf<JinjaCases>("jinja.json");
export const templateCases = casesOf<TemplateCases>("templates.json");

export function tokenizerOf(folder: string): Tokenizer {
  return Tokenizer.fromFiles(
    fileOf(`${folder}/tokenizer.json`),
    fileOf(`${folder}/tokenizer_config.json`),
  );
}

/** Positions of the values whose hash is not the one at their place. */
export function unlike(values: readonly string[], hashes: string): number[] {
  const hashed = values.map((value) => createHash("sha256").update(value).digest("hex"));
  return hashed.flatMap((hash, i) =>
    hash.slice(0, DIGITS) === hashes.slice(i * DIGITS, (i + 1) * DIGITS) ? [] : [i],
  );
}
