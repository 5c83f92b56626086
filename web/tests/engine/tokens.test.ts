/** Tokens that a config declares, names or lists are those of transformers. */

import { describe, expect, test } from "vitest";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { fileOf } from "./cases.ts";

interface Case {
  readonly what: string;
  readonly flags: object;
  readonly config: object;
  readonly older: object;
  /** Where the ids of each text are in the list of all. */
  readonly ids: readonly number[];
  readonly special: readonly string[];
}

interface Stored {
  readonly base: string;
  readonly changed: readonly string[];
  readonly texts: readonly string[];
  readonly ids: readonly (readonly number[])[];
  readonly cases: readonly Case[];
}

const parsed = (path: string) => JSON.parse(new TextDecoder().decode(fileOf(path)));
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const stored: Stored = parsed("tests/text/added-tokens.json");
const base = parsed(`tests/runtime/text/goldens/${stored.base}/tokenizer.json`);

function tokenizerOf({ flags, config, older }: Pick<Case, "flags" | "config" | "older">) {
  const added = base.added_tokens.map((token: { content: string }) =>
    stored.changed.includes(token.content) ? { ...token, ...flags } : token,
  );
  return Tokenizer.fromFiles(bytes({ ...base, added_tokens: added }), bytes(config), bytes(older));
}

describe.each(stored.cases.map((each) => [each.what, each] as const))("%s", (_, each) => {
  const tokenizer = tokenizerOf(each);

  test("gives texts the ids that transformers gives them", () => {
    const expected = each.ids.map((at) => stored.ids[at]);
    expect(stored.texts.map((text) => tokenizer.encode(text))).toEqual(expected);
  });

  test("leaves the same tokens out of texts", () => {
    for (const content of each.special) {
      expect(tokenizer.decode([tokenizer.idOf(content) ?? 0], true)).toBe("");
    }
    const end = tokenizer.idOf("<|im_end|>") ?? 0;
    const kept = each.special.includes("<|im_end|>") ? "" : "<|im_end|>";
    expect(tokenizer.decode([end], true)).toBe(kept);
  });
});

test("what has been special once is left out of texts, as in Python", () => {
  const config = { added_tokens_decoder: { 522: { content: "<|im_end|>" } } };
  const tokenizer = tokenizerOf({ flags: {}, config, older: {} });
  expect(tokenizer.decode([tokenizer.idOf("<|im_end|>") ?? 0], true)).toBe("");
});

test.each([
  { bos_token: { x: 1 } },
  { added_tokens_decoder: { 1: "<s>" } },
  { added_tokens_decoder: { 1: {} } },
  { extra_special_tokens: 3 },
  { extra_special_tokens: "abc" },
  { extra_special_tokens: [null] },
  { extra_special_tokens: { a: 1 } },
  { additional_special_tokens: { a: "b" } },
])("what describes no token is refused: %j", (config) => {
  expect(() => tokenizerOf({ flags: {}, config, older: {} })).toThrow(
    expect.objectContaining({ code: "checkpoint.tokenizer" }),
  );
});
