/** Grammars that people write become what they become in Python, and the same are refused. */

import { expect, test } from "vitest";
import { type Node, toJson } from "../../grammar/nodes.ts";
import { lowerGrammar, syntaxOf } from "../../grammar/written.ts";
import { casesOf, expected, type GrammarCase, hashed, type Outcome, outcome } from "./cases.ts";

const CASES = casesOf<GrammarCase>("grammars.json");
const BOMBS = casesOf<GrammarCase>("grammar-bombs.json");
const RANDOM = casesOf<GrammarCase>("random-grammars.json");

function made(text: string): Outcome {
  return outcome(() => {
    const { root, rules } = lowerGrammar(text);
    const written = [...rules].map(([name, node]: [string, Node]) => [name, toJson(node)]);
    return { root, rules: Object.fromEntries(written) };
  });
}

test.each(CASES.map((item, i) => [`${item.what} (${i})`, item] as const))(
  "%s becomes what it does in Python",
  (_, item) => {
    const here = made(item.text ?? "");
    expect(here).toEqual(expected(item));
    expect(JSON.stringify(here.json)).toBe(JSON.stringify(item.json));
  },
);

test.each(BOMBS.map((item) => [item.what, item] as const))("%s is refused", (_, item) => {
  const text = (item.parts ?? []).map(([part, count]) => part.repeat(count)).join("");
  expect(made(text)).toEqual({ error: "input.grammar" });
});

test(`${RANDOM.length} grammars at random become what they do in Python`, () => {
  const unlike = RANDOM.filter((item) => {
    const [here, there] = [hashed(made(item.text ?? "")), expected(item)];
    return here.json !== there.json || here.error !== there.error;
  });
  expect(unlike).toEqual([]);
});

test.each([
  ['root ::= "é" |\n  ( other', "Line 2, column 10"],
  ['root ::= "é日😀" &', "Line 1, column 16"],
  ['root ::= a\n\na ::= "\\uD800"', "Line 3, column 8"],
  ["start: A\n\n  %foo\nA: /x/", "Line 3, column 3"],
  ['start: "a"\n  | b', "Line 2, column 5"],
  ["start: /a(?=b)/", "Line 1, column 8"],
])("errors say the line and the column: %s", (text, place) => {
  expect(() => lowerGrammar(text)).toThrow(`${place} of the grammar: `);
});

test("a syntax is known by its first rule, and may be named", () => {
  expect(syntaxOf("# c\nroot ::= x")).toBe("gbnf");
  expect(syntaxOf("// c\n%import common.WS")).toBe("lark");
  expect(() => lowerGrammar('start: "a"', "gbnf")).toThrow("Line 1, column 6");
});
