/** Streaming text: whole characters, and joined it is the text of decoding at once. */

import { expect, test } from "vitest";
import { Detokenizer } from "../../engine/detokenize.ts";

function stream(tokens: readonly string[], decoder: unknown, skipped: readonly string[] = []) {
  const vocabulary = { tokenOf: (id: number) => tokens[id], decoder };
  return new Detokenizer(vocabulary, new Set(skipped));
}

/** What every token alone brings out, and the end. */
function pieces(tokens: readonly string[], decoder: unknown): string[] {
  const detokenizer = stream(tokens, decoder);
  return [...tokens.map((_, id) => detokenizer.push([id])), detokenizer.finish()];
}

const BYTES = { type: "ByteLevel" };
const LLAMA = {
  type: "Sequence",
  decoders: [
    { type: "Replace", pattern: { String: "▁" }, content: " " },
    { type: "ByteFallback" },
    { type: "Fuse" },
    { type: "Strip", content: " ", start: 1, stop: 0 },
  ],
};

test("byte-level tokens wait for whole characters", () => {
  expect(pieces(["a", "Ġb", "ðŁ", "ĻĤ", "!"], BYTES)).toEqual(["a", " b", "", "🙂", "!", ""]);
});

test("bytes that never become a character are written as U+FFFD", () => {
  expect(pieces(["ðŁ", "a", "ðŁ"], BYTES).join("")).toBe("�a�");
});

test("an added token is spelled as it is, and a byte order mark is text", () => {
  expect(pieces(["日本", "ï»¿", "x"], BYTES).join("")).toBe("日本\ufeffx");
});

test("a run of byte tokens is certain when it ends", () => {
  expect(pieces(["▁a", "<0xE2>", "<0x82>", "<0xAC>", "b"], LLAMA)).toEqual([
    "a",
    "",
    "",
    "",
    "€b",
    "",
  ]);
  expect(pieces(["<0xE2>", "<0x82>"], LLAMA)).toEqual(["", "", "��"]);
});

test("only the first mark of a text is dropped", () => {
  expect(pieces(["▁▁a", "▁b"], LLAMA).join("")).toBe(" a b");
  expect(pieces(["▁a", "▁b"], { type: "Metaspace", replacement: "▁" }).join("")).toBe("a b");
  const kept = { type: "Metaspace", replacement: "▁", prepend_scheme: "never" };
  expect(pieces(["▁a", "▁b"], kept).join("")).toBe(" a b");
});

test("without a decoder tokens are joined with spaces", () => {
  expect(pieces(["a", "b"], null).join("")).toBe("a b");
});

test("replaced text is taken as it is written", () => {
  const dollar = { type: "Replace", pattern: { String: "_" }, content: "$&" };
  expect(pieces(["a_b_"], dollar).join("")).toBe("a$&b$&");
});

test("trailing content is held back until something follows", () => {
  const strip = { type: "Strip", content: "-", start: 0, stop: 2 };
  const decoder = { type: "Sequence", decoders: [{ type: "Fuse" }, strip] };
  expect(pieces(["a-", "-", "-", "b-"], decoder)).toEqual(["a", "", "-", "--b", ""]);
});

test("skipped and unknown ids have no text", () => {
  const detokenizer = stream(["<end>", "a"], BYTES, ["<end>"]);
  expect(detokenizer.push([1, 0, 99, 1])).toBe("aa");
});

test.each([-1, 1.5, 2 ** 32, Number.NaN])("%d is not a token id", (id) => {
  expect(() => stream(["a"], BYTES).push([id])).toThrow(
    expect.objectContaining({ code: "input.token" }),
  );
});

test.each([
  { type: "CTC", pad_token: "<pad>", word_delimiter_token: "|", cleanup: true },
  { type: "WordPiece", prefix: 3, cleanup: true },
  { type: "BPEDecoder", suffix: "" },
  { type: "Sequence", decoders: [{ type: "Fuse" }, { type: "WordPiece", prefix: "##" }] },
  { type: "toString" },
  { type: "Sequence", decoders: [{ type: "Fuse" }, { type: "ByteFallback" }] },
  { type: "Replace", pattern: { Regex: "a+" }, content: "" },
  { type: "Strip", content: " ", start: "1", stop: 0 },
  { type: "Sequence", decoders: null },
  "ByteLevel",
])("a decoder that cannot be streamed is refused: %j", (decoder) => {
  expect(() => stream([], decoder)).toThrow(
    expect.objectContaining({ code: "unsupported.decoder" }),
  );
});
