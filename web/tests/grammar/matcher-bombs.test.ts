/** Grammars that would take time or memory without end are refused, by code, when that shows. */

import { expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { Matcher } from "../../grammar/matcher.ts";
import type { Grammar, Node } from "../../grammar/nodes.ts";
import { bytesOf } from "../../grammar/utf8.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import { Random } from "../engine/random.ts";

const TOKENS = new Vocabulary(
  Array.from({ length: 8000 }, (_, seed) => {
    const rng = new Random(seed);
    return bytesOf(Array.from({ length: 14 }, () => rng.pick(["a", "b"])).join(""));
  }),
);

const A: Node = { kind: "literal", text: "a" };
const grammarOf = (root: Node): Grammar => ({ root: "root", rules: new Map([["root", root]]) });

function nested(depth: number): Node {
  let node = A;
  for (let i = 0; i < depth; i++) node = { kind: "sequence", items: [node, A] };
  return node;
}

/** Rules of which each begins with either of two that begin with either of two, and so on. */
function doubling(depth: number): string {
  const rules = Array.from({ length: depth }, (_, i) =>
    ["r", "s"].map((name) => `${name}${i} ::= r${i + 1} "x" | s${i + 1} "y"`).join("\n"),
  );
  return `root ::= r0 | s0\n${rules.join("\n")}\nr${depth} ::= "a"\ns${depth} ::= "a"\n`;
}

/** Rules that all read the same, of which each remembers where an "a" was. */
function separate(count: number): string {
  const names = Array.from({ length: count }, (_, i) => `r${i}`);
  const rules = names.map((name, i) => `${name} ::= [ab]* "a" [ab]{12} "c"{${i}}`);
  return `root ::= ${names.join(" | ")}\n${rules.join("\n")}`;
}

function codeOf(use: () => unknown): string | null {
  try {
    use();
    return null;
  } catch (error) {
    if (error instanceof EdgewiseError) return error.code;
    throw error;
  }
}

const made = (grammar: Grammar) => () => new Matcher(grammar, TOKENS);
const after = (text: string, read: string) => () => {
  const matcher = new Matcher(lowerGrammar(text), TOKENS);
  const state = matcher.advanceBytes(matcher.start, bytesOf(read));
  return state !== null && matcher.mask(state);
};

const REFUSED: readonly (readonly [string, string, () => unknown])[] = [
  [
    "a text of two million bytes",
    "constraint.too_large",
    made(grammarOf({ kind: "literal", text: "ab".repeat(1 << 20) })),
  ],
  [
    "more parts than any request has",
    "constraint.too_large",
    made(grammarOf({ kind: "sequence", items: new Array<Node>(600_000).fill(A) })),
  ],
  ["parts too deep within one another", "constraint.too_large", made(grammarOf(nested(100_000)))],
  ["a rule that is missing", "input.grammar", made(grammarOf({ kind: "rule", name: "none" }))],
  [
    "a rule without an end",
    "input.grammar",
    made(grammarOf({ kind: "sequence", items: [A, { kind: "rule", name: "root" }] })),
  ],
  [
    "a rule that begins with itself",
    "input.grammar",
    made(grammarOf({ kind: "choice", items: [{ kind: "rule", name: "root" }, A] })),
  ],
  ["a set without characters", "input.grammar", made(grammarOf({ kind: "chars", ranges: [] }))],
  ["half a character", "input.grammar", made(grammarOf({ kind: "literal", text: "\ud800" }))],
  ["a billion ways to begin", "constraint.ambiguous", after(doubling(30), "")],
  [
    "twice as many ways with each byte",
    "constraint.ambiguous",
    after('root ::= s | r\ns ::= "a" (r "x" | s "y")?\nr ::= "a" (s "z" | r "w")?', "a".repeat(40)),
  ],
  [
    "tokens each of which is another state of many pairs",
    "constraint.ambiguous",
    after(separate(150), ""),
  ],
  [
    "a text that is too deep",
    "constraint.too_large",
    after('root ::= "(" root? ")"', "(".repeat(70_000)),
  ],
];

test.each(REFUSED)("refused: %s", (_, code, use) => {
  expect(codeOf(use)).toBe(code);
});

test.each([
  ["counts within counts", 'root ::= (("a"{1,40} "b"?){0,40} "c"?){0,40}', "aaab"],
  [
    "rules that share what they begin with",
    `root ::= ${'("a" r "x" | "a" r "y") '.repeat(50)}\nr ::= "b"*`,
    "abb",
  ],
  ["a text that may have begun anywhere", "root ::= [ab]* [a] [ab]{2000}", "ab".repeat(200)],
  ["bodies that may be empty, within one another", 'root ::= ((("a"*)*)*){0,100} "b"', "aaaa"],
  ["a set of many ranges, a large number of times", "root ::= [^a-cx-zà-ÿ一-三😀]{9999}", "defg"],
  ["an endless run that may be told apart anywhere", 'root ::= ("a"+){500,1000}', "a".repeat(5000)],
])("taken: %s", (_, text, read) => {
  expect(codeOf(after(text, read))).toBeNull();
});
