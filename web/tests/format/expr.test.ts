/** Expressions: what they evaluate to, how far they reach, and what is no expression. */

import { describe, expect, test } from "vitest";
import {
  bounds,
  compile,
  type Expr,
  evaluate,
  parse,
  type Range,
  symbols,
} from "../../format/expr.ts";
import { codeOf, list, load, named, numbers, type Table, table } from "./cases.ts";

const CASES = named(load("expressions.json"), "expr");

describe("an expression gives what it gives in Python:", () => {
  test.each(CASES.filter(([, item]) => item.has("values")))("%s", (_, item) => {
    const values = numbers(item.get("values"));
    agrees(item, (expr) => evaluate(expr, values), "result");
  });
});

describe("an expression compiled to a function gives the same:", () => {
  test.each(CASES.filter(([, item]) => item.has("values")))("%s", (_, item) => {
    const values = numbers(item.get("values"));
    const names = [...values.keys()].reverse();
    const inOrder = Float64Array.from(names, (name) => values.get(name) ?? 0);
    agrees(item, (expr) => compile(expr, names)(inOrder), "result");
  });
});

describe("an expression reaches as far as in Python:", () => {
  test.each(CASES.filter(([, item]) => item.has("ranges")))("%s", (_, item) => {
    const ranges = new Map<string, Range>();
    for (const [name, range] of table(item.get("ranges"))) {
      const [low, high] = list(range);
      ranges.set(name, [Number(low), Number(high)]);
    }
    agrees(item, (expr) => bounds(expr, ranges), "bounds");
  });
});

function agrees(item: Table, ask: (expr: Expr) => unknown, key: string): void {
  const code = item.get("code");
  if (code !== undefined) expect(codeOf(() => ask(parse(item.get("expr"))))).toBe(code);
  else expect(ask(parse(item.get("expr")))).toEqual(item.get(key));
}

test("the symbols of an expression are those it names", () => {
  const expr = parse(["add", ["mul", "n", "b"], ["max", "n", 3]]);
  expect([...symbols(expr)].sort()).toEqual(["b", "n"]);
});

test("a compiled expression needs a value for each of its symbols", () => {
  expect(codeOf(() => compile("n", ["b"]))).toBe("plan.symbol");
  expect(codeOf(() => compile("n", ["b", "n"])([1]))).toBe("plan.symbol");
});
