import { describe, expect, it } from "vitest";
import type { Message } from "../../client/types.ts";
import { ControlTokens } from "../../engine/control.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { askedOf } from "../../worker/asking.ts";
import { promptOf, type Texts } from "../../worker/prompting.ts";
import type { Prompt, Wanted } from "../../worker/protocol.ts";

/** Every character is a token, its code; a text that is no template's begins with a 1. */
const tokenizer = {
  encode: (text: string, special = true) => [
    ...(special ? [1] : []),
    ...[...text].map((character) => character.codePointAt(0) ?? 0),
  ],
  decode: (ids: Iterable<number>) => String.fromCodePoint(...ids),
  /** As where the longest token has ten characters. */
  exceeds: (text: string, tokens: number) => text.length > 10 * tokens,
};
const template = new ChatTemplate(
  "{% for m in messages %}{{ m.content }}{% endfor %}" +
    "{% if add_generation_prompt %}>{% endif %}{% if enable_thinking is false %}!{% endif %}",
);
const controls = new ControlTokens({
  ...tokenizer,
  addedTokens: [],
  normalizesAdded: false,
  encodePlainly: (text: string) => tokenizer.encode(text, false),
});
const TEXTS = { name: "model", tokenizer, template, controls };
const MESSAGES: readonly Message[] = [
  { role: "system", content: "S" },
  ...["abc", "def", "ghi"].flatMap((text) => [
    { role: "user", content: text },
    { role: "assistant", content: text.toUpperCase() },
  ]),
  { role: "user", content: "?" },
];

const chat = (changes: Partial<Extract<Prompt, { kind: "chat" }>> = {}): Prompt => ({
  kind: "chat",
  messages: MESSAGES,
  contextPolicy: "drop",
  begun: [],
  variables: {},
  specialTokens: "text",
  ...changes,
});
const NOTHING: Wanted = {
  responseFormat: undefined,
  tools: undefined,
  toolChoice: undefined,
  toolFormat: undefined,
  reasoning: undefined,
};
const prompted = (
  prompt: Prompt,
  wanted: Wanted,
  texts: Texts,
  context: number,
  maxTokens: number,
) => promptOf(prompt, askedOf(wanted, texts.template), texts, context, maxTokens);
const text = (ids: readonly number[]) => String.fromCodePoint(...ids);

describe("a prompt", () => {
  it("of text or tokens is taken as it is", () => {
    const read = (prompt: Prompt) => prompted(prompt, NOTHING, TEXTS, 100, 10).prompt;
    expect(read({ kind: "text", text: "ab" })).toEqual([1, 97, 98]);
    expect(read({ kind: "tokens", tokens: [5, 6] })).toEqual([5, 6]);
  });

  it("of a conversation is what the template writes, then what there is of the answer", () => {
    const { prompt, begun } = prompted(chat({ begun: [72, 105] }), NOTHING, TEXTS, 100, 10);
    expect([text(prompt), begun]).toEqual(["SabcABCdefDEFghiGHI?>Hi", 2]);
  });

  it("of a conversation has tools, and calls as the template wants them", () => {
    const texts = {
      ...TEXTS,
      template: new ChatTemplate(
        "{% if tools %}{{ tools[0].function.name }}:{% endif %}{% for m in messages %}" +
          "{{ m.content }}{% for c in m.tool_calls | default([]) %}{{ c.function.arguments + ';' }}" +
          "{% endfor %}{% endfor %}",
      ),
    };
    const call = { type: "function", function: { name: "f", arguments: '{"a":  1}' } } as const;
    const calling: Message = { role: "assistant", content: null, tool_calls: [call] };
    const tools = [{ type: "function", function: { name: "f" } }] as const;
    const asked = chat({ messages: [{ role: "user", content: "?" }, calling] });
    expect(text(prompted(asked, { ...NOTHING, tools }, texts, 100, 10).prompt)).toBe(
      'f:?{"a":  1};',
    );
    const wrong = { ...NOTHING, tools: [{ type: "function", function: { name: "a b" } }] } as const;
    expect(() => prompted(asked, wrong, texts, 100, 10)).toThrow("A tool is named");
  });

  it("of a conversation has what the template reads besides", () => {
    const variables = { enable_thinking: false };
    const { prompt } = prompted(chat({ variables, begun: [72] }), NOTHING, TEXTS, 100, 10);
    expect(text(prompt)).toBe("SabcABCdefDEFghiGHI?>!H");
  });

  it("has no tools where none may be called, and asks for thoughts as the template lets it", () => {
    const source =
      "{{ tools | default([], true) | length }}{{ '-' if enable_thinking is false else '+' }}" +
      "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n";
    const texts = { ...TEXTS, template: new ChatTemplate(source) };
    const tools = [{ type: "function", function: { name: "f" } }] as const;
    const messages = [{ role: "user", content: "?" }];
    const asked = chat({ messages, contextPolicy: "stop" });
    const read = (wanted: Partial<Wanted>) =>
      prompted(asked, { ...NOTHING, ...wanted }, texts, 100, 10);
    expect(text(read({ tools }).prompt)).toBe("1+?<think>");
    expect(text(read({ tools, toolChoice: "none", reasoning: "off" }).prompt)).toBe("0-?<think>");
    const { makeReader, marks } = read({ tools, toolFormat: "hermes" });
    const reader = makeReader();
    expect(marks).toContain("<tool_call>");
    expect(reader.push("hm</think>!")).toEqual([
      { kind: "reasoning", text: "hm" },
      { kind: "content", text: "!" },
    ]);
  });

  it.each([
    ["unsupported.reasoning", { reasoning: "high" }],
    ["unsupported.calls", { toolFormat: "nobody's" }],
    [
      "input.response_format",
      { responseFormat: "json", tools: [{ type: "function", function: { name: "f" } }] },
    ],
    ["input.tool_choice", { toolChoice: "sometimes" as "auto" }],
  ] as const)("that asks for what is not there is refused (%s)", (code, changes) => {
    const read = () => prompted(chat(), { ...NOTHING, ...changes }, TEXTS, 100, 10);
    expect(read).toThrow(expect.objectContaining({ code }));
  });

  it("of a text may ask for a format or a budget, and not for what a template says", () => {
    const read = (wanted: Partial<Wanted>) =>
      prompted({ kind: "text", text: "a <think>\n" }, { ...NOTHING, ...wanted }, TEXTS, 100, 10);
    expect(read({}).hold).toBeNull();
    const bare = promptOf({ kind: "text", text: "a" }, null, TEXTS, 100, 10);
    expect(bare).toMatchObject({ prompt: [1, 97], marks: [], hold: null });
    expect(read({ reasoning: 5 }).hold).toMatchObject({
      answer: null,
      budget: 5,
      thoughts: { open: "<think>", opened: true, may: false },
    });
    const responseFormat = { type: "regex", pattern: "a+" } as const;
    expect(read({ responseFormat }).hold).toMatchObject({
      answer: { kind: "regex" },
      budget: null,
    });
    expect(() => read({ reasoning: "on" })).toThrow(
      expect.objectContaining({ code: "input.reasoning" }),
    );
  });

  it("is without the oldest turns where the context is full, if that is wanted", () => {
    const cut = prompted(chat({ begun: [72, 105] }), NOTHING, TEXTS, 24, 10);
    expect(text(cut.prompt)).toBe("SghiGHI?>Hi");
    expect(cut).toMatchObject({ begun: 2, droppedTurns: 2 });
    const whole = prompted(chat({ contextPolicy: "stop" }), NOTHING, TEXTS, 8, 10);
    expect(whole.prompt).toHaveLength(21);
    expect(whole.droppedTurns).toBeUndefined();
  });

  it("that is too long by its characters is not tokenized", () => {
    const encode = () => {
      throw new Error("tokenized");
    };
    const untold = {
      hide: (all: readonly Message[]) => all,
      hideIn: <T>(value: T) => value,
      shown: (told: string) => told,
      encode,
    };
    const texts = { ...TEXTS, tokenizer: { ...tokenizer, encode }, controls: untold };
    const read = (prompt: Prompt) => prompted(prompt, NOTHING, texts, 100, 10);
    const messages: readonly Message[] = [{ role: "user", content: "a".repeat(1001) }];
    const long: readonly Prompt[] = [
      { kind: "text", text: "a".repeat(1001) },
      chat({ messages, contextPolicy: "stop" }),
      chat({ messages, contextPolicy: "drop" }),
    ];
    for (const prompt of long) {
      expect(() => read(prompt)).toThrow(
        expect.objectContaining({
          code: "input.context",
          message: expect.stringMatching(/characters/),
        }),
      );
    }
  });

  it("counts the characters of what is hidden, not of what stands for it", () => {
    const hidden = {
      hide: (all: readonly Message[]) => all,
      hideIn: <T>(value: T) => value,
      shown: () => "ab",
      encode: () => [7],
    };
    const messages: readonly Message[] = [{ role: "user", content: "0".repeat(1001) }];
    const read = prompted(chat({ messages }), NOTHING, { ...TEXTS, controls: hidden }, 100, 10);
    expect(read.prompt).toEqual([7]);
  });

  it("is without turns that are too long by their characters, if that is wanted", () => {
    const messages = [{ role: "user", content: "a".repeat(1001) }, ...MESSAGES.slice(2)];
    const cut = prompted(chat({ messages }), NOTHING, TEXTS, 100, 10);
    expect(cut.droppedTurns).toBe(1);
    expect(text(cut.prompt)).toBe("defDEFghiGHI?>");
  });

  it.each(["stop", "drop"] as const)(
    "that goes on with an answer says so where it fills the context: %s",
    (contextPolicy) => {
      const messages: readonly Message[] = [{ role: "user", content: "abc" }];
      const read = (context: number) =>
        prompted(chat({ messages, begun: [72, 105], contextPolicy }), NOTHING, TEXTS, context, 10);
      expect(text(read(7).prompt)).toBe("abc>Hi");
      expect(() => read(6)).toThrow(
        expect.objectContaining({
          code: "input.context",
          message: expect.stringContaining("the answer so far fill the context of 6 tokens"),
        }),
      );
    },
  );

  it("of a conversation is read as it is where its special tokens are to be tokens", () => {
    const hide = () => {
      throw new Error("nothing is to be hidden");
    };
    const texts = { ...TEXTS, controls: { hide, hideIn: hide, shown: hide, encode: hide } };
    const read = prompted(chat({ specialTokens: "control" }), NOTHING, texts, 100, 10);
    expect(read.prompt).toEqual(prompted(chat(), NOTHING, TEXTS, 100, 10).prompt);
  });

  it("of a conversation needs a template, and options that there are", () => {
    expect(() => prompted(chat(), NOTHING, { ...TEXTS, template: null }, 100, 10)).toThrow(
      expect.objectContaining({ code: "input.no_template" }),
    );
    const odd = { contextPolicy: "shrink", begun: "Hi", variables: "on", specialTokens: "both" };
    for (const wrong of Object.entries(odd).map((entry) => Object.fromEntries([entry]))) {
      const prompt = { ...chat(), ...wrong } as unknown as Prompt;
      expect(() => prompted(prompt, NOTHING, TEXTS, 100, 10)).toThrow(
        expect.objectContaining({ code: "input.option" }),
      );
    }
  });
});
