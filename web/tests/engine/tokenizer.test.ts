/** Token ids and texts are those of Python, for every kind of tokenizer and every script. */

import { describe, expect, test } from "vitest";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { fileOf, texts, tokenCases, tokenizerOf, unlike } from "./cases.ts";
import { Random } from "./random.ts";

const ONE_DIGIT = "tests/runtime/text/goldens/one_digit";
const bytes = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

describe.each(Object.entries(tokenCases))("the tokenizer %s", (_, cases) => {
  const tokenizer = tokenizerOf(cases.folder);

  test("gives the same ids", () => {
    for (const [i, ids] of cases.ids.entries()) {
      if (ids) expect(tokenizer.encode(texts[i] ?? "")).toEqual(ids);
    }
    expect(
      unlike(
        texts.map((text) => tokenizer.encode(text).join()),
        cases.encoded,
      ),
    ).toEqual([]);
  });

  test("gives the same ids without what a post-processor adds", () => {
    const plain = texts.map((text) => tokenizer.encode(text, false).join());
    expect(unlike(plain, cases.plain)).toEqual([]);
  });

  test("gives the same text back, with special tokens and without", () => {
    const ids = texts.map((text) => tokenizer.encode(text));
    expect(
      unlike(
        ids.map((each) => tokenizer.decode(each)),
        cases.decoded,
      ),
    ).toEqual([]);
    expect(
      unlike(
        ids.map((each) => tokenizer.decode(each, true)),
        cases.streamed,
      ),
    ).toEqual([]);
  });

  test("gives the same text id by id, and in pieces of whole characters", () => {
    for (const text of texts) {
      const ids = tokenizer.encode(text);
      const detokenizer = tokenizer.stream();
      const pieces = ids.map((id) => detokenizer.push([id]));
      const last = detokenizer.finish();
      expect(pieces.join("") + last).toBe(tokenizer.decode(ids, true));
      expect(pieces.some((piece) => /\p{Surrogate}/u.test(piece))).toBe(false);
    }
  });

  test("names the same special tokens", () => {
    expect(Object.fromEntries(tokenizer.specialTokens)).toEqual(cases.special_tokens);
  });
});

test("random ids, even those nobody has, decode in pieces as they do at once", () => {
  const random = new Random(3);
  for (const { folder } of Object.values(tokenCases)) {
    const tokenizer = tokenizerOf(folder);
    for (let i = 0; i < 100; i++) {
      const ids = Array.from({ length: random.whole(0, 40) }, () => random.whole(0, 700));
      const detokenizer = tokenizer.stream(false);
      const pieces = ids.map((id) => detokenizer.push([id]));
      expect(pieces.join("") + detokenizer.finish()).toBe(tokenizer.decode(ids));
    }
  }
});

test("marks are seen where they are special tokens, others are not", () => {
  const tokenizer = tokenizerOf(ONE_DIGIT);
  const [first = "", second = ""] = tokenizer.specialTokens.values();
  const ids = tokenizer.encode(`a${first}b${second}c`, false);
  const stream = tokenizer.stream(true, [`${first}\n`]);
  expect(first).not.toBe(second);
  expect(stream.push(ids) + stream.finish()).toBe(`a${first}bc`);
});

test.each(["\ud800", "a\udfffb"])("a lone surrogate is refused", (text) => {
  expect(() => tokenizerOf(ONE_DIGIT).encode(text)).toThrow(
    expect.objectContaining({ code: "input.text" }),
  );
});

test("an id nobody has decodes to nothing, one that cannot be is refused", () => {
  const tokenizer = tokenizerOf(ONE_DIGIT);
  expect(tokenizer.decode([2 ** 31])).toBe("");
  expect(() => tokenizer.decode([0, -1])).toThrow(expect.objectContaining({ code: "input.token" }));
});

test("the config names tokens, which go to the end of the vocabulary", () => {
  const json = fileOf("tests/runtime/text/goldens/prefix_space/tokenizer.json");
  const tokenizer = Tokenizer.fromFiles(json, bytes({ eos_token: { content: "<|stop|>" } }));
  expect([...tokenizer.specialTokens]).toEqual([["eos_token", "<|stop|>"]]);
  const id = tokenizer.idOf("<|stop|>");
  expect(tokenizer.encode("a<|stop|>b", false)).toContain(id);
  expect(tokenizer.decode([id ?? 0])).toBe("<|stop|>");
  expect(tokenizer.decode([id ?? 0], true)).toBe("");
});

const json = JSON.parse(new TextDecoder().decode(fileOf(`${ONE_DIGIT}/tokenizer.json`)));

test("parts that do nothing may be left out", () => {
  const { model, pre_tokenizer, decoder } = json;
  const tokenizer = Tokenizer.fromFiles(bytes({ model, pre_tokenizer, decoder }), null);
  expect(tokenizer.decode(tokenizer.encode("Hello, world!"))).toBe("Hello, world!");
});

test("digits are those of every script, as Python's tokenizers cut them", () => {
  const vocab = { a: 0, "1": 1, "٣": 2, "⁸": 3, Ⅷ: 4, "½": 5, "[UNK]": 6, "1٣": 7 };
  const cut = (individual_digits: boolean) =>
    Tokenizer.fromFiles(
      bytes({
        model: { type: "BPE", vocab, merges: ["1 ٣"], unk_token: "[UNK]" },
        pre_tokenizer: { type: "Digits", individual_digits },
      }),
      null,
    ).encode("a1٣⁸Ⅷ½");
  expect(cut(true)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(cut(false)).toEqual([0, 7, 3, 4, 5]);
});

test.each<[string, unknown, unknown]>([
  ["no JSON", "{", null],
  ["no UTF-8", null, null],
  ["another model", { ...json, model: { type: "Unknown" } }, null],
  ["no model", { version: "1.0" }, null],
  ["ids that are none", { ...json, model: { ...json.model, vocab: { a: -1 } } }, null],
  ["tokens that are none", { ...json, added_tokens: [{ id: 1 }] }, null],
  [
    "a pattern that is none",
    { ...json, pre_tokenizer: { type: "Split", pattern: { Regex: "(" } } },
    null,
  ],
  ["a config that is a list", json, []],
  ["a config that is no JSON", json, "{"],
  ["a token that is a number", json, { bos_token: { content: 3 } }],
  ["declared tokens without an id", json, { added_tokens_decoder: { x: "y" } }],
  ["declared tokens in a list", json, { added_tokens_decoder: [1] }],
])("files with %s are refused", (_, tokenizer, config) => {
  const file = tokenizer === null ? Uint8Array.of(0xff, 0xfe) : bytes(tokenizer);
  expect(() => Tokenizer.fromFiles(file, config === null ? null : bytes(config))).toThrow(
    expect.objectContaining({ name: "EdgewiseError", code: "checkpoint.tokenizer" }),
  );
});

test("a kind that cannot be used is refused", () => {
  const scripts = { ...json, pre_tokenizer: { type: "UnicodeScripts" } };
  expect(() => Tokenizer.fromFiles(bytes(scripts), null)).toThrow(
    expect.objectContaining({ code: "unsupported.tokenizer" }),
  );
  const first = { type: "Metaspace", replacement: "▁", prepend_scheme: "first" };
  const pretokenizers = [{ type: "WhitespaceSplit" }, first];
  const late = { ...json, pre_tokenizer: { type: "Sequence", pretokenizers } };
  expect(() => Tokenizer.fromFiles(bytes(late), null)).toThrow(
    expect.objectContaining({ code: "unsupported.tokenizer" }),
  );
  const pieces = { ...json, decoder: { type: "CTC", pad_token: "", cleanup: true } };
  expect(() => Tokenizer.fromFiles(bytes(pieces), null)).toThrow(
    expect.objectContaining({ code: "unsupported.decoder" }),
  );
});

test("merges of continued words have to go on with their prefix", () => {
  const prefixed = { ...json, model: { ...json.model, continuing_subword_prefix: "##" } };
  expect(() => Tokenizer.fromFiles(bytes(prefixed), null)).toThrow(
    expect.objectContaining({ code: "checkpoint.tokenizer" }),
  );
});

/** The path of every value, without the entries of the vocabulary. */
function places(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  const last = path.at(-1) ?? "";
  const here = path.length > 0 ? [path] : [];
  if (typeof value !== "object" || value === null || ["vocab", "merges"].includes(last))
    return here;
  return [...here, ...Object.entries(value).flatMap(([k, v]) => places(v, [...path, k]))];
}

test("a tokenizer with one value changed works or is refused in our words", () => {
  const all = places(json);
  for (const path of all) {
    for (const value of [null, -1, "", "x", [], [1, 2], {}, true, 1e12]) {
      const changed = structuredClone(json);
      const inner = path.slice(0, -1).reduce((at, key) => at[key], changed);
      inner[path.at(-1) ?? ""] = value;
      try {
        const tokenizer = Tokenizer.fromFiles(bytes(changed), null);
        tokenizer.decode(tokenizer.encode("Hello wörld <s> 日本"));
      } catch (error) {
        expect(error).toMatchObject({ name: "EdgewiseError" });
      }
    }
  }
});

test.each(["x".repeat(5 << 20), '\\"'.repeat(5 << 19)])(
  "a text that no vocabulary has is refused before it is parsed (case %#)",
  (long) => {
    const opened = () => Tokenizer.fromFiles(bytes(`["${long}"`), null);
    expect(opened).toThrow(/longer texts than any vocabulary needs/);
  },
);

test("dropout is for training: a text has the same tokens with it", () => {
  const found = JSON.parse(new TextDecoder().decode(fileOf(`${ONE_DIGIT}/tokenizer.json`)));
  const text = "Tokens of a text are the same each time.";
  const plain = Tokenizer.fromFiles(bytes(found), null).encode(text);
  found.model.dropout = 1;
  expect(Tokenizer.fromFiles(bytes(found), null).encode(text)).toEqual(plain);
});

test("of two declarations of a token the first holds", () => {
  const twice = [
    { content: "<new>", lstrip: true },
    { content: "<new>", lstrip: false },
  ];
  const config = bytes({ extra_special_tokens: twice });
  const tokenizer = Tokenizer.fromFiles(fileOf(`${ONE_DIGIT}/tokenizer.json`), config);
  expect(tokenizer.decode(tokenizer.encode("a <new> b"))).toBe("a<new> b");
});
