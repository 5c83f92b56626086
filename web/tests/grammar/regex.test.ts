/** Regular expressions become what they become in Python, and the same are refused. */

import { expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import { jsonEscape, plain } from "../../grammar/escapes.ts";
import { toJson } from "../../grammar/nodes.ts";
import { lowerRegex } from "../../grammar/regex.ts";
import { casesOf, expected, hashed, type Outcome, outcome, type RegexCase } from "./cases.ts";

const CASES = casesOf<RegexCase>("regexes.json");
const RANDOM = casesOf<RegexCase>("random-regexes.json");

function made({ pattern, where, ignore_case, dot_all, ...item }: RegexCase): Outcome {
  return outcome(() =>
    toJson(
      lowerRegex(pattern, {
        where: where ?? "whole",
        escape: item.escape === "json" ? jsonEscape : plain,
        ignoreCase: ignore_case ?? false,
        dotAll: dot_all ?? false,
      }),
    ),
  );
}

test.each(CASES.map((item, i) => [`${item.pattern.slice(0, 40)} (${i})`, item] as const))(
  "%s becomes what it does in Python",
  (_, item) => {
    expect(made(item)).toEqual(expected(item));
  },
);

test(`${RANDOM.length} expressions at random become what they do in Python`, () => {
  const unlike = RANDOM.filter((item) => {
    const [here, there] = [hashed(made(item)), expected(item)];
    return here.json !== there.json || here.error !== there.error;
  });
  expect(unlike).toEqual([]);
});

test("what is refused says where and what it is, in code points", () => {
  expect(() => lowerRegex("😀b(?=c)")).toThrow(/a look-ahead, at character 3\.$/);
  expect(() => lowerRegex("😀b(?=c)")).toThrow(EdgewiseError);
});
