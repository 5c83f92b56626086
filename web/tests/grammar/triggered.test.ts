/** Free text may be anything up to a trigger, after which a text of the grammar is needed. */

import { describe, expect, test } from "vitest";
import { Matcher } from "../../grammar/matcher.ts";
import { Triggered } from "../../grammar/triggered.ts";
import { bytesOf } from "../../grammar/utf8.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import { Random } from "../engine/random.ts";
import { Oracle } from "./oracle.ts";

const LETTERS = ["<", "a", "b", ">"];
const GRAMMAR = lowerGrammar('root ::= c (">" c)?\nc ::= "b"* ">" | ("a" | "<")? ">"');
const TRIGGERS = ["<a", "<<b"];
/** All texts of up to three letters, a token that controls, and one that pads. */
const TOKENS = [
  ...LETTERS,
  ...LETTERS.flatMap((a) => LETTERS.map((b) => a + b)),
  ...LETTERS.flatMap((a) => LETTERS.flatMap((b) => LETTERS.map((c) => a + b + c))),
  null,
  "",
];
const CONTROL = TOKENS.indexOf(null);
const VOCABULARY = new Vocabulary(TOKENS.map((text) => (text === null ? null : bytesOf(text))));

const triggered = (after: "free" | "end") =>
  new Triggered(new Matcher(GRAMMAR, VOCABULARY), TRIGGERS.map(bytesOf), after, VOCABULARY);

function has(mask: Uint32Array, token: number): boolean {
  return (((mask[token >>> 5] ?? 0) >>> (token & 31)) & 1) === 1;
}

function endOf(text: string, word: string): number {
  const at = text.indexOf(word);
  return at < 0 ? Number.POSITIVE_INFINITY : at + word.length;
}

/** Whether a text may go on, may be free text for that, and may end: every way to divide it. */
class Divided {
  private readonly oracle = new Oracle(GRAMMAR);

  constructor(private readonly after: "free" | "end") {}

  of(text: string): { readonly begins: boolean; readonly free: boolean; readonly ends: boolean } {
    const found = { begins: false, free: false, ends: false };
    if (!TRIGGERS.some((trigger) => text.includes(trigger))) {
      found.begins = found.free = found.ends = true;
    }
    const start = Math.min(...TRIGGERS.map((trigger) => endOf(text, trigger)));
    if (start > text.length) return found;
    const bytes = [...bytesOf(text.slice(start))];
    found.begins ||= this.oracle.begins(bytes);
    found.ends ||= this.oracle.isText(bytes);
    for (let end = start + 1; end <= text.length && this.after === "free"; end++) {
      if (!this.oracle.isText([...bytesOf(text.slice(start, end))])) continue;
      const rest = this.of(text.slice(end));
      found.begins ||= rest.begins;
      found.free ||= rest.free;
      found.ends ||= rest.ends;
    }
    return found;
  }
}

describe.each(["free", "end"] as const)("then %s", (after) => {
  const matcher = triggered(after);
  const divided = new Divided(after);

  test("texts at random have the masks of every way to divide them", () => {
    for (let seed = 0; seed < 25; seed++) {
      const rng = new Random(seed);
      let [state, text] = [matcher.start, ""];
      for (let step = 0; step < 6; step++) {
        const mask = matcher.mask(state);
        const now = divided.of(text);
        const should = TOKENS.map((token) => (token ? divided.of(text + token).begins : now.free));
        expect(
          TOKENS.map((_, token) => has(mask, token)),
          text,
        ).toEqual(should);
        expect(matcher.mayEnd(state), text).toBe(now.ends);
        expect(matcher.free(state), text).toBe(should.every((allowed) => allowed));
        const allowed = [...TOKENS.keys()].filter((token) => should[token]);
        expect(matcher.mustEnd(state), text).toBe(allowed.length === 0);
        if (allowed.length === 0) break;
        const token = rng.pick(allowed);
        const next = matcher.advance(state, token);
        expect(next, text).not.toBeNull();
        [state, text] = [next ?? matcher.start, text + (TOKENS[token] ?? "")];
      }
    }
  });

  test("tokens without bytes come in free text only, and leave it as it is", () => {
    const begun = matcher.advanceBytes(matcher.start, bytesOf("ab<")) ?? 0;
    expect(matcher.advance(begun, CONTROL)).toBe(begun);
    expect(matcher.advance(begun, VOCABULARY.size)).toBeNull();
    const called = matcher.advanceBytes(begun, bytesOf("a")) ?? 0;
    expect(matcher.advance(called, CONTROL)).toBeNull();
    const done = matcher.advanceBytes(called, bytesOf(">")) ?? 0;
    expect(matcher.advance(done, CONTROL)).toBe(after === "free" ? done : null);
  });
});

test("free text needs no mask where no token goes beyond a trigger", () => {
  const plain = new Vocabulary([0x3c, 0x61, 0x62, 0x80, 0xff].map((byte) => Uint8Array.of(byte)));
  const grammar = lowerGrammar('root ::= "b"');
  const matcher = new Triggered(new Matcher(grammar, plain), [bytesOf("<a")], "end", plain);
  expect(matcher.free(matcher.start)).toBe(true);
  const begun = matcher.advanceBytes(matcher.start, Uint8Array.of(0xff, 0x80, 0x3c)) ?? 0;
  expect(matcher.free(begun)).toBe(true);
  const called = matcher.advance(begun, 1) ?? 0;
  expect(matcher.free(called)).toBe(false);
  expect(matcher.forced(called, 9)).toEqual(bytesOf("b"));
});

test.each([
  ["none", []],
  ["an empty one", ["<a", ""]],
  ["very long ones", ["<a".repeat(600)]],
])("triggers are refused: %s", (_, triggers) => {
  const matcher = new Matcher(GRAMMAR, VOCABULARY);
  const made = () => new Triggered(matcher, triggers.map(bytesOf), "free", VOCABULARY);
  expect(made).toThrow(expect.objectContaining({ code: "constraint.triggers" }));
});
