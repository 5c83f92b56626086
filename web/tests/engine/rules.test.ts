/** What a tokenizer.json may ask for, by the cases that Python is held to. */

import { describe, expect, test } from "vitest";
import { checkRules, type Rules } from "../../engine/rules.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { fileOf } from "./cases.ts";

interface Case {
  readonly what: string;
  readonly at: readonly string[];
  readonly value: unknown;
  readonly error: string | null;
}

const parsed = (path: string) => JSON.parse(new TextDecoder().decode(fileOf(path)));
const CASES: readonly Case[] = parsed("tests/format/tokenizer-rules.json");
const BASE = parsed("tests/runtime/text/goldens/one_digit/tokenizer.json");
const BYTE_FALLBACK = parsed("tests/runtime/text/goldens/byte_fallback/tokenizer.json");
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

interface File {
  readonly model: { readonly vocab: Readonly<Record<string, number>> };
}

function rulesOf(tokenizer: File): Rules {
  return checkRules({ ...tokenizer }, new Map(Object.entries(tokenizer.model.vocab)));
}

function changed({ at, value }: Case) {
  const tokenizer = structuredClone(BASE);
  const inner = at.slice(0, -1).reduce((part, key) => part[key], tokenizer);
  inner[at.at(-1) ?? ""] = value;
  return tokenizer;
}

describe("rules", () => {
  test.each(CASES.map((each) => [each.what, each] as const))("with %s", (_, each) => {
    const open = () => Tokenizer.fromFiles(bytes(changed(each)), null);
    if (each.error) {
      expect(open).toThrow(expect.objectContaining({ code: each.error }));
    } else {
      expect(open().encode("a").length).toBeLessThanOrEqual(20);
    }
  });

  test("say how much longer a text can become", () => {
    expect(rulesOf({ ...BASE, normalizer: null }).growth).toBe(2);
    expect(rulesOf({ ...BASE, normalizer: { type: "Prepend", prepend: "▁" } }).growth).toBe(8);
  });

  test("say how many characters a token stands for, as long as none is left out", () => {
    const longest = Math.max(...Object.keys(BASE.model.vocab).map((token) => token.length));
    expect(rulesOf({ ...BASE, normalizer: null }).reach).toBe(longest);
    expect(rulesOf(BASE).reach).toBe(4 * longest);
    expect(rulesOf({ ...BASE, normalizer: { type: "StripAccents" } }).reach).toBeNull();
    const { é: _, ...vocab } = BASE.model.vocab;
    expect(rulesOf({ ...BASE, model: { ...BASE.model, vocab } }).reach).toBeNull();
    const tokens = Object.keys(BYTE_FALLBACK.model.vocab).map((token) => token.length);
    expect(rulesOf(BYTE_FALLBACK).reach).toBe(Math.max(...tokens));
  });
});

test.each([
  ["many lists", "[".repeat(1_500_000)],
  ["many numbers", `[${"0,".repeat(3_500_000)}0]`],
])("a file of %s is refused before it is parsed", (_, text) => {
  expect(() => Tokenizer.fromFiles(new TextEncoder().encode(text), null)).toThrow(/more values/);
});

describe("a long text", () => {
  const tokenizer = Tokenizer.fromFiles(bytes({ ...BASE, normalizer: null }), null);

  test("is known by its characters to exceed a context", () => {
    expect(tokenizer.exceeds("a".repeat(100_000), 1000)).toBe(true);
    expect(tokenizer.exceeds("a".repeat(1000), 1000)).toBe(false);
    expect(tokenizer.exceeds("😀".repeat(8000), 1000)).toBe(false);
  });

  test("is not said to where spaces may disappear", () => {
    const added = BASE.added_tokens.map((token: object) => ({ ...token, lstrip: true }));
    const strips = Tokenizer.fromFiles(
      bytes({ ...BASE, normalizer: null, added_tokens: added }),
      null,
    );
    expect(strips.exceeds(" ".repeat(100_000), 1000)).toBe(false);
    expect(strips.exceeds("a".repeat(100_000), 1000)).toBe(true);
  });

  test("that rules could make too large is refused", () => {
    const pattern = { String: "a" };
    const normalizer = { type: "Replace", pattern, content: "b".repeat(256) };
    const steps = { type: "Sequence", normalizers: [normalizer, { type: "Lowercase" }] };
    const grows = Tokenizer.fromFiles(bytes({ ...BASE, normalizer: steps }), null);
    expect(() => grows.encode("c".repeat(1 << 16))).toThrow(
      expect.objectContaining({ code: "input.text" }),
    );
  });
});
