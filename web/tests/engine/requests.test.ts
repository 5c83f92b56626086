/** Tools, choices of them, formats, reasoning and calls are what Python makes of them, and refused alike. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Message } from "../../client/types.ts";
import { type Reasoning, reasoningOf, variablesOf } from "../../engine/reasoning.ts";
import {
  parseAnswer,
  type ResponseFormat,
  responseFormatOf,
} from "../../engine/response-format.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { type CallForm, hasCalls, withCalls } from "../../engine/tool-calls.ts";
import { toolChoiceOf } from "../../engine/tool-choice.ts";
import { toolsOf } from "../../engine/tools.ts";

/** What comes of something, or the code of its error. */
interface Outcome {
  readonly value?: unknown;
  readonly error?: string;
}

interface Cases {
  readonly tools: readonly (readonly [unknown, Outcome])[];
  readonly choices: readonly (readonly [unknown, readonly string[], Outcome])[];
  readonly formats: readonly (readonly [unknown, Outcome])[];
  readonly reasoning: readonly (readonly [unknown, Outcome])[];
  readonly variables: readonly (readonly [string, unknown, Outcome])[];
  readonly calls: readonly (readonly [Message["tool_calls"] | null, boolean, Outcome])[];
  readonly special_tokens: Readonly<Record<string, string>>;
  readonly conversations: readonly {
    readonly messages: readonly Message[];
    readonly tools: readonly Readonly<Record<string, unknown>>[] | null;
  }[];
  readonly templates: Readonly<Record<string, string>>;
  readonly rendered: Readonly<
    Record<string, { readonly form: CallForm; readonly prompts: readonly Outcome[] }>
  >;
}

const FILE = new URL("../../../tests/request/cases.json", import.meta.url);
const cases: Cases = JSON.parse(readFileSync(FILE, "utf8"));

function outcome(make: () => unknown): Outcome {
  try {
    return { value: make() };
  } catch (error) {
    expect(error).toMatchObject({ name: "EdgewiseError" });
    return { error: error instanceof Error && "code" in error ? String(error.code) : "" };
  }
}

/** With what was given, so that a difference says of what it is. */
const told = (given: unknown, found: Outcome) => ({ given, ...found });

test("tools", () => {
  for (const [given, expected] of cases.tools) {
    expect(
      told(
        given,
        outcome(() => toolsOf(given)),
      ),
    ).toEqual(told(given, expected));
  }
});

test("choices of tools", () => {
  for (const [given, names, expected] of cases.choices) {
    const known = names.map((name) => ({ name }));
    const found = outcome(() => toolChoiceOf(given, known));
    expect(told([given, names], found)).toEqual(told([given, names], expected));
  }
});

test("formats of answers", () => {
  for (const [given, expected] of cases.formats) {
    expect(
      told(
        given,
        outcome(() => responseFormatOf(given)),
      ),
    ).toEqual(told(given, expected));
  }
});

test("reasoning", () => {
  for (const [given, expected] of cases.reasoning) {
    expect(
      told(
        given,
        outcome(() => reasoningOf(given)),
      ),
    ).toEqual(told(given, expected));
  }
});

test("what a template is asked for reasoning", () => {
  for (const [source, given, expected] of cases.variables) {
    const template = new ChatTemplate(source);
    const asked: Reasoning = reasoningOf(given);
    const found = outcome(() =>
      variablesOf(asked, (messages, variables) => template.render(messages, { variables })),
    );
    expect(told([source, given], found)).toEqual(told([source, given], expected));
  }
});

test("calls in messages", () => {
  for (const [calls, text, expected] of cases.calls) {
    const answer = { role: "assistant", content: null, tool_calls: calls } as unknown as Message;
    const messages = [{ role: "user", content: "?" }, answer];
    const found = outcome(() => withCalls(messages, { text, content: text }));
    expect(told([calls, text], found)).toEqual(told([calls, text], expected));
    expect(hasCalls(messages)).toBe(calls !== null);
  }
});

test("more calls than any answer has are refused", () => {
  const call = { function: { name: "f", arguments: {} } };
  const calling = (count: number) => [
    { role: "assistant", content: null, tool_calls: Array.from({ length: count }, () => call) },
  ];
  const form = { text: false, content: false };
  expect(withCalls(calling(256), form)).toHaveLength(1);
  expect(() => withCalls(calling(257), form)).toThrow("a list of up to 256");
});

describe.each(Object.entries(cases.templates))("the template %s", (name, source) => {
  const template = new ChatTemplate(source, new Map(Object.entries(cases.special_tokens)));
  const expected = cases.rendered[name];

  test("is found to want a form of calls", () => {
    expect(template.callForm).toEqual(expected?.form);
  });

  test.each(cases.conversations.map((chat, i) => [i, chat] as const))(
    "renders conversation %i with tools",
    (i, { messages, tools }) => {
      const found = outcome(() =>
        template.render(withCalls(messages, template.callForm), { tools }),
      );
      expect(found).toEqual(expected?.prompts[i]);
    },
  );
});

const NESTED = (() => {
  let value: unknown = [];
  for (let i = 0; i < 10_000; i++) value = [value];
  return value;
})();

test.each([
  ["deep", NESTED],
  ["many", Array.from({ length: 1 << 17 }, () => 0)],
  ["long", "x".repeat(1 << 21)],
  ["not finite", Number.NaN],
  ["half a character", "\ud800"],
  ["a function", () => 1],
])("a schema that is no JSON, or too much, is refused: %s", (_, much) => {
  const schema = { type: "object", enum: much };
  expect(() => toolsOf([{ name: "f", parameters: schema }])).toThrow(
    expect.objectContaining({ code: "input.tools" }),
  );
  expect(() =>
    responseFormatOf({ type: "json_schema", json_schema: { name: "a", schema } }),
  ).toThrow(expect.objectContaining({ code: "input.response_format" }));
});

test("a template for tools is used where there are tools", () => {
  const named = new Map([
    ["default", "default"],
    ["tool_use", "tools"],
  ]);
  const template = new ChatTemplate(named);
  const messages = [{ role: "user", content: "x" }];
  expect(template.render(messages)).toBe("default");
  expect(template.render(messages, { tools: [] })).toBe("tools");
});

test("an answer is read as its format says", () => {
  const any: ResponseFormat = { kind: "json_object" };
  expect(parseAnswer(any, '{"a": [1]}')).toEqual({ a: [1] });
  expect(parseAnswer({ kind: "regex", text: "a+" }, "aa")).toBe("aa");
  for (const answer of ["", '{"a": ', "[]", "7", "[".repeat(200_000)]) {
    expect(() => parseAnswer(any, answer)).toThrow(
      expect.objectContaining({ code: "input.answer" }),
    );
  }
});
