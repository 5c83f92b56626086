/** Chat templates render as Python renders them, and what they do wrong is explained and bounded. */

import { describe, expect, test } from "vitest";
import { ChatTemplate } from "../../engine/template.ts";
import { jinjaCases, type Outcome, templateCases } from "./cases.ts";

const { conversations, templates, rendered, wrong, wrong_templates: sources } = templateCases;
const SPECIAL = new Map(Object.entries(templateCases.special_tokens));
const NOW = new Date(templateCases.now);
const USER = { role: "user", content: "x" };
const bytes = (text: string) => new TextEncoder().encode(text);

function attempt(source: string, chat: (typeof conversations)[number], prompt: boolean): Outcome {
  try {
    const template = new ChatTemplate(source, SPECIAL, () => NOW);
    const { messages, variables } = chat;
    return { text: template.render(messages, { addGenerationPrompt: prompt, variables }) };
  } catch (error) {
    expect(error).toMatchObject({ name: "EdgewiseError", remedy: expect.stringMatching(/./) });
    return { error: error instanceof Error && "code" in error ? String(error.code) : "" };
  }
}

describe.each(Object.entries(templates))("the template %s", (name, source) => {
  test.each(conversations.map((chat, i) => [i, chat] as const))(
    "renders conversation %i",
    (i, chat) => {
      const outcomes = [false, true].map((prompt) => attempt(source, chat, prompt));
      expect(outcomes).toEqual(rendered[name]?.[i]);
    },
  );
});

test.each(Object.entries(sources))("a template that is wrong is refused: %s", (name, source) => {
  const [chat] = conversations;
  if (!chat) throw new Error("there are no conversations");
  expect(attempt(source, chat, true)).toEqual(wrong[name]);
});

test("what has no text is not joined to text", () => {
  for (const value of ["raise_exception", "namespace(a=1)", "['x'] | map('trim')"]) {
    const template = new ChatTemplate(`{{ "a" ~ ${value} }}`);
    expect(() => template.render([USER])).toThrow("cannot be written");
  }
});

test("what a template raises reaches the caller", () => {
  const template = new ChatTemplate(templates.dated ?? "", SPECIAL, () => NOW);
  expect(() => template.render([{ role: "assistant", content: "hi" }])).toThrow(
    "Roles must alternate: assistant at 0",
  );
});

test("templates mean what they mean in Python", () => {
  const chat = { messages: [USER], variables: jinjaCases.variables };
  for (const [source, outcome] of jinjaCases.written) {
    expect({ source, ...attempt(source, chat, true) }).toEqual({ source, ...outcome });
  }
});

const MESSAGE = { role: "user", content: jinjaCases.hostile_message };

test.each([
  ...Object.entries(jinjaCases.hostile),
  ["a namespace in itself", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"],
  [
    "nested namespaces",
    `{% set n0 = namespace(a='x') %}${Array.from({ length: 50 }, (_, i) => `{% set n${i + 1} = namespace(a=n${i}, b=n${i}) %}`).join("")}{{ n50 }}`,
  ],
])(
  "a hostile template is stopped: %s",
  (_, source) => {
    expect(() => new ChatTemplate(source).render([MESSAGE])).toThrow(
      expect.objectContaining({ name: "EdgewiseError", code: "input.template" }),
    );
  },
  20_000,
);

test.each([
  ["blocks", "{% if true %}", "", "{% endif %}"],
  ["brackets", "[", "", "]"],
  ["signs", "-", "1", ""],
  ["negations", "not ", "1", ""],
  ["conditions", "1 if 1 else ", "1", ""],
])("a template deeper than the stack is refused: %s", (_, opening, inner, closing) => {
  for (const times of [3000, 20_000]) {
    const nested = opening.repeat(times) + inner + closing.repeat(times);
    const source = opening.startsWith("{%") ? nested : `{{ ${nested} }}`;
    expect(() => new ChatTemplate(source)).toThrow(
      expect.objectContaining({ name: "EdgewiseError", code: "checkpoint.template" }),
    );
  }
});

test("a conversation without end is refused", () => {
  const itself: Record<string, unknown> = {};
  itself.a = itself;
  for (const content of [itself, Array.from({ length: 1 << 18 }, () => 0)]) {
    const template = new ChatTemplate("x");
    expect(() => Reflect.apply(template.render, template, [[{ role: "user", content }]])).toThrow(
      expect.objectContaining({ code: "input.messages" }),
    );
  }
});

test("a template larger than the bound is refused", () => {
  expect(() => new ChatTemplate("x".repeat((1 << 20) + 1))).toThrow("at most");
});

test("a long conversation is no trouble", () => {
  const messages = Array.from({ length: 2000 }, (_, i) => ({
    role: i % 2 ? "assistant" : "user",
    content: "some words ".repeat(100),
  }));
  const text = new ChatTemplate(templates.thinking ?? "", SPECIAL).render(messages);
  expect(text.length).toBeGreaterThan(2_000_000);
});

test.each<[string, unknown]>([
  ["nothing", []],
  ["text", ["hello"]],
  ["null", null],
])("a conversation that is none is refused: %s", (_, messages) => {
  const template = new ChatTemplate(templates.chatml ?? "");
  expect(() => Reflect.apply(template.render, template, [messages])).toThrow(
    expect.objectContaining({ code: "input.messages" }),
  );
});

test("a template sees plain values only", () => {
  class Rich {
    toString() {
      return "called";
    }
  }
  const template = new ChatTemplate("{% for m in messages %}{{ m.content }} {% endfor %}");
  const messages = [{ role: "user", content: new Rich() }, USER];
  expect(Reflect.apply(template.render, template, [messages])).toBe("<object> x ");
});

describe("the template of a bundle", () => {
  const config = (template: unknown) => bytes(JSON.stringify({ chat_template: template }));
  const text = (file: Uint8Array | null, json: Uint8Array | null) =>
    ChatTemplate.fromFiles(file, json, SPECIAL)?.render([USER]) ?? null;

  test("is its file before its config", () => {
    expect(text(bytes("file {{ bos_token }}"), config("config"))).toBe("file <s>");
    expect(text(null, config("config"))).toBe("config");
    expect(
      text(
        null,
        config([
          { name: "tool_use", template: "t" },
          { name: "default", template: "d" },
        ]),
      ),
    ).toBe("d");
  });

  test("may be none", () => {
    expect(text(null, null)).toBeNull();
    expect(text(null, bytes("{}"))).toBeNull();
  });

  test.each([[[{ name: "x" }]], [["x"]], [[{ name: "rag", template: "x" }]]])(
    "is refused where the list is malformed or has no default: %j",
    (list) => {
      expect(() => text(null, config(list))).toThrow(
        expect.objectContaining({ code: "checkpoint.template" }),
      );
    },
  );

  test("is refused where it is not text", () => {
    expect(() => text(Uint8Array.of(0xff), null)).toThrow(
      expect.objectContaining({ code: "checkpoint.template" }),
    );
  });
});
