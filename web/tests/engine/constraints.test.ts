/** What answers are held to: any walk through the masks is an answer as asked for. */

import { describe, expect, it } from "vitest";
import { shownBy } from "../../calls/format.ts";
import { formatNamed } from "../../calls/formats.ts";
import { Parser } from "../../calls/parser.ts";
import type { Constraint } from "../../engine/constraint.ts";
import { Constraints } from "../../engine/constraints.ts";
import { type ResponseFormat, responseFormatOf } from "../../engine/response-format.ts";
import { type Thoughts, thoughtsOf } from "../../engine/thoughts.ts";
import { tokenizerOf } from "./cases.ts";
import { Random } from "./random.ts";

const SIZE = 704;
const MOST = 400;
const tokenizer = tokenizerOf("tests/runtime/text/goldens/one_digit");
const ends = new Set([tokenizer.idOf("<|im_end|>") ?? 0]);
const constraints = new Constraints(tokenizer, SIZE, ends);
const HERMES = formatNamed("hermes");
const thoughts = (given: Partial<Thoughts> = {}): Thoughts =>
  thoughtsOf(HERMES, { shown: ["<think>", "</think>"], may: false, opened: false, ...given });

const wanted = (given: unknown): ResponseFormat => {
  const format = responseFormatOf(given);
  if (!format) throw new Error("any text");
  return format;
};
const PERSON = wanted({
  type: "json_schema",
  json_schema: {
    schema: {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 12 },
        age: { type: "integer", minimum: 0, maximum: 150 },
        tags: { type: "array", items: { enum: ["é", "b", 3] }, maxItems: 3 },
      },
      required: ["name", "age"],
      additionalProperties: false,
    },
  },
});

/** A walk through the masks, forced tokens included; null where it did not end. */
function walk(constraint: Constraint, random: Random): number[] | null {
  const tokens: number[] = [];
  let state = constraint.start;
  const take = (token: number) => {
    const next = constraint.advance(state, token);
    if (next === null) throw new Error(`${token} is refused`);
    state = next;
    tokens.push(token);
  };
  while (tokens.length < MOST) {
    for (const token of constraint.forcedTokens(state)) take(token);
    if (constraint.mustEnd(state)) return tokens;
    const mask = constraint.mask(state);
    const allowed = Array.from({ length: SIZE }, (_, id) => id).filter(
      (id) => ((mask[id >>> 5] ?? 0) >>> (id & 31)) & 1,
    );
    if (constraint.mayEnd(state) && (allowed.length === 0 || random.whole(0, 3) === 0))
      return tokens;
    take(allowed[random.whole(0, allowed.length - 1)] ?? -1);
  }
  return null;
}

function texts(constraint: Constraint, count = 25, least = count / 2): string[] {
  const random = new Random(7);
  const walks = Array.from({ length: count }, () => walk(constraint, random));
  const ended = walks.filter((tokens) => tokens !== null);
  expect(ended.length).toBeGreaterThan(least);
  return ended.map((tokens) => tokenizer.decode(tokens));
}

describe("an answer", () => {
  it("of a schema is JSON of it", () => {
    for (const text of texts(constraints.ofFormat(PERSON, thoughts()))) {
      const { name, age, tags = [] } = JSON.parse(text);
      expect([typeof name, Number.isInteger(age), Array.isArray(tags)]).toEqual([
        "string",
        true,
        true,
      ]);
      expect(age).toBeLessThanOrEqual(150);
      expect([...name].length).toBeLessThanOrEqual(12);
    }
  });

  it("of a regex or a grammar matches it", () => {
    const regex = wanted({ type: "regex", pattern: "(yes|no|maybe) [0-9]{2,4}!" });
    for (const text of texts(constraints.ofFormat(regex, thoughts()))) {
      expect(text).toMatch(/^(yes|no|maybe) [0-9]{2,4}!$/);
    }
    const grammar = wanted({ type: "grammar", grammar: 'root ::= "a" root "b" | "c"' });
    for (const text of texts(constraints.ofFormat(grammar, thoughts()))) {
      expect(text).toMatch(/^(a*)c(b*)$/);
    }
  });

  it("may come after a thought, or in one that the prompt has begun", () => {
    const regex = wanted({ type: "regex", pattern: "yes|no" });
    const follows = (given: Partial<Thoughts>, text: string) => {
      const constraint = constraints.ofFormat(regex, thoughts(given));
      let state: number | null = constraint.start;
      for (const token of tokenizer.encode(text, false)) {
        state = state === null ? null : constraint.advance(state, token);
      }
      return state !== null && constraint.mustEnd(state);
    };
    const thought = "<think>a < b </thin\n</think>";
    const may = ["yes", `${thought}yes`, `${thought}\n\nno`];
    expect(may.map((text) => follows({ may: true }, text))).toEqual([true, true, true]);
    expect(may.map((text) => follows({}, text))).toEqual([true, false, false]);
    expect(follows({ opened: true }, "hm</think>\n\nno")).toBe(true);
    for (const text of ["no", "hm</think>maybe", "hm</think></think>no", "hm</think>     no"]) {
      expect(follows({ opened: true }, text)).toBe(false);
    }
  });

  it("is kept for others that ask the same, the last used of them", () => {
    const made = constraints.ofFormat(PERSON, thoughts()).mask(0);
    expect(constraints.ofFormat(PERSON, thoughts()).mask(0)).toBe(made);
    for (let i = 0; i < 40; i++) {
      constraints.ofFormat(wanted({ type: "regex", pattern: `a{${i}}` }), thoughts());
    }
    expect(constraints.ofFormat(PERSON, thoughts()).mask(0)).not.toBe(made);
  });

  it.each([
    ["input.regex", { type: "regex", pattern: "(" }],
    ["unsupported.regex", { type: "regex", pattern: "(?=a)" }],
    ["input.grammar", { type: "grammar", grammar: "root ::= other" }],
    [
      "unsupported.schema",
      { type: "json_schema", json_schema: { schema: { unevaluatedProperties: false } } },
    ],
  ])("that cannot be followed is refused (%s)", (code, given) => {
    expect(() => constraints.ofFormat(wanted(given), thoughts())).toThrow(
      expect.objectContaining({ code }),
    );
  });
});

describe("calls", () => {
  const tools = {
    add: {
      type: "object",
      properties: { x: { type: "integer", minimum: 0, maximum: 99 } },
      required: ["x"],
      additionalProperties: false,
    },
    now: { type: "object", properties: {}, additionalProperties: false },
  };
  const held = (choice: "auto" | "required" | "named", name = "hermes") =>
    constraints.ofCalls(
      { format: formatNamed(name), tools, choice, name: choice === "named" ? "add" : null },
      thoughts({ shown: shownBy(formatNamed(name)) }),
    );
  const called = (text: string, name = "hermes") => {
    const parser = new Parser(formatNamed(name), { tools });
    return [...parser.feed(text), ...parser.end()].filter(({ kind }) => kind === "call ends")
      .length;
  };

  it.each(["hermes", "llama3", "mistral", "json", "deepseek", "gemma4"])(
    "that must come are calls as %s writes them",
    (name) => {
      const required = held("required", name);
      const named = held("named", name);
      if (!required || !named) throw new Error("nothing is held");
      for (const text of texts(required, 25, 0)) expect(called(text, name)).toBeGreaterThan(0);
      for (const text of texts(named)) expect([called(text, name), text]).toEqual([1, text]);
    },
  );

  it("that may come are so from their mark on", () => {
    const constraint = held("auto");
    if (!constraint) throw new Error("nothing is held");
    const follows = (text: string) => {
      let state: number | null = constraint.start;
      for (const token of tokenizer.encode(text, false)) {
        state = state === null ? null : constraint.advance(state, token);
      }
      return state !== null && constraint.mayEnd(state);
    };
    const call = '<tool_call>\n{"name": "add", "arguments": {"x": 7}}\n</tool_call>';
    expect(["No call.", `I add.${call}`, `${call}\n${call}`].map(follows)).toEqual([
      true,
      true,
      true,
    ]);
    const wrong = call.replace("7", '"7"');
    expect([wrong, call.replace("add", "sub"), call.slice(0, -20)].map(follows)).toEqual([
      false,
      false,
      false,
    ]);
  });

  it("that may come are not held to where their format has no mark", () => {
    expect(held("auto", "json")).toBeNull();
  });
});

describe("what must come", () => {
  const forced = (pattern: string) => {
    const constraint = constraints.ofFormat(wanted({ type: "regex", pattern }), thoughts());
    return tokenizer.decode(constraint.forcedTokens(constraint.start));
  };

  it("is all of it where nothing follows, else all but its last token", () => {
    expect(forced("the whole answer")).toBe("the whole answer");
    const begun = forced("the answer: (yes|no)");
    expect("the answer: ").toContain(begun);
    expect(begun.length).toBeGreaterThan(4);
  });

  it("is nothing where there is a choice, or only a byte", () => {
    expect(forced("(a|b)cdef")).toBe("");
    expect(forced("a[bc]")).toBe("");
  });
});

describe("a thought of so many tokens at most", () => {
  const answer = wanted({ type: "regex", pattern: "yes|no" });

  it.each([0, 1, 5, 17])("is closed after %i", (budget) => {
    for (const inner of [null, answer]) {
      const asked = thoughts({ opened: true });
      const held = inner && constraints.ofFormat(inner, asked);
      const constraint = constraints.budgeted(held, asked, budget);
      let state = constraint.start;
      const tokens: number[] = [];
      const word = tokenizer.encode("a", false)[0] ?? 0;
      const take = (token: number) => {
        state = constraint.advance(state, token) ?? -1;
        tokens.push(token);
      };
      for (let i = 0; i < budget; i++) {
        expect(constraint.forcedTokens(state)).toEqual([]);
        take(word);
      }
      const closing = constraint.forcedTokens(state);
      for (const [i, token] of closing.entries()) {
        expect(constraint.mayEnd(state)).toBe(false);
        expect(constraint.forcedTokens(state)).toEqual(closing.slice(i));
        const mask = constraint.mask(state);
        expect(mask.reduce((sum, bits) => sum + (bits === 0 ? 0 : 1), 0)).toBe(1);
        expect(constraint.advance(state, word)).toBeNull();
        take(token);
      }
      expect(tokenizer.decode(tokens)).toBe(`${"a".repeat(budget)}\n</think>\n\n`);
      expect(constraint.free(state)).toBe(inner === null);
      if (inner) take(tokenizer.encode("no", false)[0] ?? 0);
    }
  });

  it("is as long as it is where it ends by itself, and there need be none", () => {
    const constraint = constraints.budgeted(null, thoughts({ may: true }), 50);
    const reached = (text: string) =>
      tokenizer
        .encode(text, false)
        .reduce((state, token) => constraint.advance(state, token) ?? -1, constraint.start);
    const long = " a".repeat(100);
    for (const text of [`<think>a b</think>${long}`, long, ` \n<thin${long}`]) {
      expect(constraint.forcedTokens(reached(text))).toEqual([]);
    }
    expect(constraint.forcedTokens(reached(`<think>${long}`.slice(0, 20)))).toEqual([]);
    expect(constraint.forcedTokens(constraint.start)).toEqual([]);
  });
});
