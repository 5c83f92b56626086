/** Masks are exact: they hold the tokens whose bytes go on with a text, and no others. */

import { expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { Matcher } from "../../grammar/matcher.ts";
import type { Grammar, Node } from "../../grammar/nodes.ts";
import { bytesOf } from "../../grammar/utf8.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import { Random } from "../engine/random.ts";
import { Oracle, randomGrammar, randomTokens } from "./oracle.ts";

const GRAMMARS = 250;
const STEPS = 16;
const BYTES = new Vocabulary(Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)));

function allowed(mask: Uint32Array): number[] {
  return Array.from({ length: 32 * mask.length }, (_, token) => token).filter(
    (token) => ((mask[token >>> 5] ?? 0) >>> (token & 31)) & 1,
  );
}

function matcherOf(grammar: Grammar, vocabulary: Vocabulary): Matcher | null {
  try {
    return new Matcher(grammar, vocabulary);
  } catch (error) {
    if (error instanceof EdgewiseError && error.code === "input.grammar") return null;
    throw error;
  }
}

const gbnf = (text: string, vocabulary = BYTES) => new Matcher(lowerGrammar(text), vocabulary);

/** The state after a text, which the grammar has to take. */
function after(matcher: Matcher, text: string, state = matcher.start): number {
  const next = matcher.advanceBytes(state, bytesOf(text));
  expect(next, text).not.toBeNull();
  return next ?? matcher.start;
}

test(`${GRAMMARS} grammars at random allow what an oracle does, along texts at random`, () => {
  let walked = 0;
  for (let seed = 0; walked < GRAMMARS; seed++) {
    const rng = new Random(seed);
    const grammar = randomGrammar(rng);
    const tokens = randomTokens(rng, 120);
    const matcher = matcherOf(grammar, new Vocabulary(tokens));
    if (!matcher) continue;
    walked += 1;
    const oracle = new Oracle(grammar);
    let [state, text]: [number, number[]] = [matcher.start, []];
    for (let step = 0; step < STEPS; step++) {
      const where = `seed ${seed} after ${text.join()}`;
      const may = allowed(matcher.mask(state));
      const should = [...tokens.entries()].filter(
        ([, bytes]) => bytes && bytes.length > 0 && oracle.begins([...text, ...bytes]),
      );
      expect(may, where).toEqual(should.map(([token]) => token));
      expect(matcher.mayEnd(state), where).toBe(oracle.isText(text));
      expect(matcher.mustEnd(state), where).toBe(may.length === 0);
      if (may.length === 0) break;
      const token = rng.pick(may);
      const next = matcher.advance(state, token);
      expect(next, where).not.toBeNull();
      [state, text] = [next ?? 0, [...text, ...(tokens[token] ?? [])]];
    }
  }
});

const NESTED = 'root ::= "(" root? ")" | "[" root* "]"';
const PARENTHESES = new Vocabulary(
  ["(", ")", "()", "[", "]", ")".repeat(6), ")".repeat(25), "]))", "]".repeat(12)].map(bytesOf),
);

test.each([
  ["(((", [0, 1, 2, 3]],
  ["(([[((()))", [0, 2, 3, 4]],
  ["(([((()))", [0, 2, 3, 4, 7]],
  ["(".repeat(5), [0, 1, 2, 3]],
  ["(".repeat(6), [0, 1, 2, 3, 5]],
  ["(".repeat(24), [0, 1, 2, 3, 5]],
  ["(".repeat(40), [0, 1, 2, 3, 5, 6]],
  [`${"(".repeat(9)}${"[".repeat(12)}`, [0, 2, 3, 4, 8]],
  [`${"[".repeat(9000)}${"(".repeat(25)}`, [0, 1, 2, 3, 5, 6]],
])("rules within one another are closed in turn, however deep (%#)", (text, tokens) => {
  const matcher = gbnf(NESTED, PARENTHESES);
  expect(allowed(matcher.mask(after(matcher, text)))).toEqual(tokens);
});

test("states that differ in what is far away have one mask", () => {
  const matcher = gbnf('root ::= [ab]{0,60000} ("(" root ")")?', PARENTHESES);
  const masks = [1, 2000, 20_000].map((count) =>
    matcher.mask(after(matcher, `${"(".repeat(40 + (count % 7))}${"ab".repeat(count)}`)),
  );
  expect(masks.every((mask) => mask === masks[0])).toBe(true);
});

test.each([
  [
    'root ::= "a"{100,200}',
    [
      [99, false],
      [100, true],
      [200, true],
    ],
    200,
  ],
  [
    'root ::= ("a" | "aaa"){40}',
    [
      [39, false],
      [40, true],
      [41, false],
      [42, true],
      [119, false],
    ],
    120,
  ],
  [
    'root ::= ("aa" | "aaaaa"){34,36}',
    [
      [67, false],
      [68, true],
      [69, false],
      [71, true],
    ],
    180,
  ],
  [
    'root ::= ("a"+ | "b"?){50,100}',
    [
      [0, true],
      [1, true],
      [99, true],
      [5000, true],
    ],
    null,
  ],
  [
    'root ::= (("a"? "a"?){30,40} "a"){40}',
    [
      [39, false],
      [40, true],
      [3000, true],
    ],
    3240,
  ],
] as const)(
  "counts are kept, also where there are several ways to count: %s",
  (text, ends, most) => {
    const matcher = gbnf(text);
    for (const [count, end] of ends) {
      expect(matcher.mayEnd(after(matcher, "a".repeat(count))), `${count}`).toBe(end);
    }
    if (most === null) return;
    const last = after(matcher, "a".repeat(most));
    expect(matcher.mustEnd(last)).toBe(true);
    expect(allowed(matcher.mask(last))).toEqual([]);
  },
);

test("a token may come that ends what it counts just in time", () => {
  const vocabulary = new Vocabulary(["a", "aaaa", "aaaab", "aaaaab"].map(bytesOf));
  const matcher = gbnf('root ::= "a"{40,44} "b"', vocabulary);
  const masks = [33, 34, 35, 36, 39, 40, 41, 44].map((count) =>
    allowed(matcher.mask(after(matcher, "a".repeat(count)))),
  );
  const all = [0, 1, 2, 3];
  expect(masks).toEqual([[0, 1], [0, 1], [0, 1, 3], all, all, [0, 1, 2], [0], []]);
});

test("long tokens come and stop coming where short ones still may", () => {
  const runs = [1, 31, 32, 33, 50].map((count) => "a".repeat(count));
  const vocabulary = new Vocabulary([...runs, ...runs.map((run) => `${run}b`)].map(bytesOf));
  const matcher = gbnf('root ::= "a"{90,100} "b"', vocabulary);
  const masks = [39, 40, 49, 51, 59, 68, 69, 70, 99, 100].map((count) =>
    allowed(matcher.mask(after(matcher, "a".repeat(count)))),
  );
  const plain = [0, 1, 2, 3, 4];
  expect(masks).toEqual([
    plain,
    [...plain, 9],
    [...plain, 9],
    [0, 1, 2, 3],
    [0, 1, 2, 3, 6, 7, 8],
    [0, 1, 2, 6, 7],
    [0, 1, 6],
    [0],
    [0, 5],
    [],
  ]);
});

test("a token may begin and end within a character", () => {
  const tokens = [[0xe6], [0x97], [0xa5], [0xe6, 0x97], [0x97, 0xa5], [0xa5, 0x61], [0x97, 0xa6]];
  const vocabulary = new Vocabulary(tokens.map((bytes) => Uint8Array.from(bytes)));
  const matcher = gbnf('root ::= [日月]+ "a"', vocabulary);
  expect(allowed(matcher.mask(matcher.start))).toEqual([0, 3]);
  const begun = matcher.advance(matcher.start, 0) ?? 0;
  expect(allowed(matcher.mask(begun))).toEqual([1, 4]);
  expect(allowed(matcher.mask(matcher.advance(begun, 1) ?? 0))).toEqual([2, 5]);
  expect(matcher.advance(begun, 6)).toBeNull();
});

test("tokens of the same bytes are allowed together, and those of no bytes never", () => {
  const tokens = [null, bytesOf("a"), new Uint8Array(0), bytesOf("b"), bytesOf("a"), bytesOf("ab")];
  const matcher = gbnf('root ::= "a"', new Vocabulary(tokens));
  expect(allowed(matcher.mask(matcher.start))).toEqual([1, 4]);
  expect([0, 2, 3, 5, 6, -1].map((token) => matcher.advance(matcher.start, token))).toEqual(
    new Array(6).fill(null),
  );
});

test("what must come is known, up to where there is a choice or an end", () => {
  const matcher = gbnf('root ::= "{\\"é\\": " ("true" | "twenty") "}" "!"?');
  const forced = (state: number, most = 100) =>
    new TextDecoder().decode(matcher.forced(state, most));
  expect(forced(matcher.start)).toBe('{"é": t');
  expect(forced(matcher.start, 2)).toBe('{"');
  const chosen = after(matcher, '{"é": tr');
  expect(forced(chosen)).toBe("ue}");
  const done = after(matcher, "ue}", chosen);
  expect(forced(done)).toBe("");
  expect([matcher.mayEnd(done), matcher.mustEnd(done), matcher.free(done)]).toEqual([
    true,
    false,
    false,
  ]);
  expect(matcher.mustEnd(after(matcher, "!", done))).toBe(true);
});

test("an earlier state stays what it is, however much is done after it", () => {
  const matcher = gbnf('root ::= "<" root* ">" | [a-z0-9]{0,3000}');
  const early = after(matcher, "<<");
  const before = [...matcher.mask(early)];
  let state = early;
  for (let i = 0; i < 30_000; i++) state = after(matcher, `<${i}>`, state);
  expect([...matcher.mask(early)]).toEqual(before);
  expect(after(matcher, "<1>", early)).toBe(after(matcher, "<1>", early));
});

test("of very many states those are forgotten that were not used for long", () => {
  const row: Node = { kind: "repeat", item: { kind: "literal", text: "a" }, least: 0, most: 400 };
  const item: Node = { kind: "sequence", items: [row, { kind: "literal", text: "b" }] };
  const rules = new Map<string, Node>([["root", { kind: "repeat", item, least: 0, most: 99_999 }]]);
  const matcher = new Matcher({ rules, root: "root" }, BYTES);
  const [forgotten, used] = [after(matcher, "a"), after(matcher, "aa")];
  let state = matcher.start;
  for (let i = 1; i <= 270_000; i++) {
    state = matcher.advance(state, i % 400 === 0 ? 0x62 : 0x61) ?? Number.NaN;
    if (i % 1000 === 0) expect(matcher.mayEnd(used)).toBe(false);
  }
  expect(() => matcher.mask(forgotten)).toThrow(/was forgotten/);
  expect(matcher.advance(matcher.start, 0x62)).not.toBeNull();
});

test("a state that is none is refused", () => {
  const matcher = gbnf('root ::= "a"');
  expect(() => matcher.mask(99)).toThrow(/99 is no state/);
});
