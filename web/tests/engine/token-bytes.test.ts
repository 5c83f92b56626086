/** The bytes of tokens, one after the other, are the text that they are decoded to. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { bytesOfTokens } from "../../engine/token-bytes.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { Random } from "./random.ts";

const GOLDENS = new URL("../../../tests/runtime/text/goldens/", import.meta.url);
const KINDS = ["byte_fallback", "one_digit", "prefix_space", "three_digits"];
const TEXTS = ["Hello wörld, it's 12345!", "日本🙂\n\t  if (x) {\r\n}", " leading", "é\u0000ÿ😀😀"];
/** Some decoders leave a space out at the start of a text. */
const BEFORE = "a";

function tokenizerOf(kind: string): Tokenizer {
  const file = readFileSync(new URL(`${kind}/tokenizer.json`, GOLDENS));
  return Tokenizer.fromFiles(Uint8Array.from(file), null);
}

function joined(parts: readonly (Uint8Array | null | undefined)[]): string {
  const bytes = parts.flatMap((part) => [...(part ?? [])]);
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

describe.each(KINDS)("%s", (kind) => {
  const tokenizer = tokenizerOf(kind);
  const known = tokenizer.tokenBytes(600);

  test.each(TEXTS)("%j", (text) => {
    const before = tokenizer.encode(BEFORE, false);
    const ids = [...before, ...tokenizer.encode(text, false)];
    const bytes = tokenizer.tokenBytes(Math.max(...ids) + 1);
    const spelled = joined(ids.map((id) => bytes[id]));
    expect(spelled.endsWith(tokenizer.decode(ids, true))).toBe(true);
    expect(spelled.length - tokenizer.decode(ids, true).length).toBeLessThanOrEqual(1);
  });

  test("tokens at random, where they are whole characters", () => {
    for (let seed = 0; seed < 300; seed++) {
      const rng = new Random(seed);
      const ids = [
        ...tokenizer.encode(BEFORE, false),
        ...Array.from({ length: rng.whole(1, 8) }, () => rng.whole(0, known.length - 1)),
      ];
      const spelled = joined(ids.map((id) => known[id]));
      if (spelled.includes("\ufffd")) continue;
      expect([spelled, spelled.slice(1)]).toContain(tokenizer.decode(ids, true));
    }
  });

  test("what is skipped, and what is no token, has none", () => {
    const beyond = tokenizer.tokenBytes(100_000);
    expect(beyond.at(-1)).toBeNull();
    for (const { id, content, special } of tokenizer.addedTokens) {
      expect(beyond[id] === null).toBe(special);
      const shown = tokenizer.tokenBytes(id + 1, [`${content}!`])[id];
      expect(joined([shown])).toBe(content);
    }
  });
});

test.each([
  null,
  { type: "Strip", content: " ", start: 0, stop: 1 },
  { type: "Strip", content: "x", start: 1, stop: 0 },
  { type: "Strip", content: " ", start: 2, stop: 0 },
  { type: "BPEDecoder", suffix: "</w>" },
])("tokens without bytes of their own are refused: %j", (decoder) => {
  expect(() => bytesOfTokens(decoder)).toThrow(
    expect.objectContaining({ code: "unsupported.constraint" }),
  );
});

test("a word of WordPiece comes after a space, what continues one does not", () => {
  const bytesOf = bytesOfTokens({ type: "WordPiece", prefix: "##", cleanup: true });
  const text = (token: string) => new TextDecoder().decode(bytesOf(token) ?? undefined);
  expect(["wood", "##en", "!", "'s", "##"].map(text)).toEqual([" wood", "en", "!", "'s", ""]);
});

test("ids that end answers are of no text", () => {
  const tokenizer = tokenizerOf("one_digit");
  const [letter = 0] = tokenizer.encode("a", false);
  expect(tokenizer.tokenBytes(letter + 1, [], new Set([letter]))[letter]).toBeNull();
  expect(tokenizer.tokenBytes(letter + 1)[letter]).toEqual(Uint8Array.of(0x61));
});

test("marks and bytes are spelled out", () => {
  const bytesOf = bytesOfTokens({
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  });
  expect([...bytesOf("<0xE2>")]).toEqual([0xe2]);
  expect(joined([bytesOf("▁a▁"), bytesOf("b")])).toBe(" a b");
});
