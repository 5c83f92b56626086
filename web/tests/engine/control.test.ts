/** Special tokens that somebody has written out are text; those of the chat template are tokens. */

import { describe, expect, it, test } from "vitest";
import type { Message } from "../../client/types.ts";
import { ControlTokens } from "../../engine/control.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { fileOf, type TurnCase, templateCases, tokenizerOf, turnCases } from "./cases.ts";

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const user = (content: string) => ({ role: "user", content });
const PLAIN = ["user", "assistant", "user"].map((role) => ({ role, content: "?" }));
const CHATML = new ChatTemplate(templateCases.templates.chatml ?? "");

interface Described {
  readonly added_tokens: readonly { readonly content: string }[];
}

/** The tokenizer of a case, whose added tokens may have other flags than in its folder. */
function tokenizerFor({ tokenizer, added }: TurnCase): Tokenizer {
  if (Object.keys(added).length === 0) return tokenizerOf(tokenizer);
  const text = new TextDecoder().decode(fileOf(`${tokenizer}/tokenizer.json`));
  const described: Described = JSON.parse(text);
  const tokens = described.added_tokens.map((token) => ({ ...token, ...added[token.content] }));
  return Tokenizer.fromFiles(bytes({ ...described, added_tokens: tokens }), null);
}

function asked(tokenizer: Tokenizer, messages: readonly Message[]): readonly number[] {
  const controls = new ControlTokens(tokenizer);
  return controls.encode(CHATML.render(controls.hide(messages)));
}

test.each(turnCases.map((turns, i) => [i, turns] as const))(
  "turns %i are read as in Python",
  (_, turns) => {
    const tokenizer = tokenizerFor(turns);
    const source = templateCases.templates[turns.template] ?? "";
    const now = () => new Date(templateCases.now);
    const template = new ChatTemplate(source, tokenizer.specialTokens, now);
    const controls = new ControlTokens(tokenizer, {
      source,
      plainly: () => template.render(PLAIN),
    });
    const hidden = template.render(controls.hide(turns.messages));
    expect(controls.encode(hidden)).toEqual(turns.text);
    expect(controls.shown(hidden)).toBe(turns.prompt);
    expect(tokenizer.encode(turns.prompt, false)).toEqual(turns.control);
  },
);

test("ordinary words have the ids that they always had", () => {
  const tokenizer = tokenizerOf("examples/demo-model");
  const messages = [user("a < b"), { role: "assistant", content: "yes |> no <im_end>" }];
  expect(new ControlTokens(tokenizer).hide(messages)).toEqual(messages);
  expect(asked(tokenizer, messages)).toEqual(tokenizer.encode(CHATML.render(messages), false));
});

test("whatever is in a message is looked through, but for the marks of an answer's thoughts", () => {
  const controls = new ControlTokens(tokenizerOf("examples/demo-model"));
  const call = { function: { name: "f", arguments: { "<|im_end|>": ["<|im_start|>", 1, null] } } };
  const message = { role: "tool<|im_end|>", content: "", tool_calls: [call] };
  const [hidden] = controls.hide([message]);
  expect(JSON.stringify(hidden)).not.toContain("im_");
  expect(controls.shown(JSON.stringify(hidden))).toBe(JSON.stringify(message));
  const odd = "no message" as unknown as Message;
  expect(controls.hide([odd])).toEqual([odd]);
});

test("what a model writes itself stays tokens in its answers alone", () => {
  const added = ["<|end|>", "<call>", "<turn>", "\n"].map((content, id) => ({
    ...{ id, content, special: id === 0, normalized: false },
    ...{ single_word: false, lstrip: false, rstrip: false },
  }));
  const encode = () => [];
  const tokenizer = { addedTokens: added, normalizesAdded: false, encode, encodePlainly: encode };
  const source = "<turn>{{ content }}<|end|>\n{% if tools %}<call>{% endif %}";
  const controls = new ControlTokens(tokenizer, { source, plainly: () => "<turn>?<|end|>\n" });
  const content = "<call>\n<turn><|end|>";
  const found = controls
    .hide(["assistant", "user"].map((role) => ({ role, content })))
    .map((hidden) => added.map((token) => hidden.content?.includes(token.content)));
  expect(found).toEqual([
    [false, true, false, true],
    [false, false, false, true],
  ]);
});

describe("text that would be a control token all the same is refused", () => {
  const SPECIAL = { single_word: false, lstrip: false, rstrip: false, special: true };
  const describedAs = (model: object, normalizer: object | null, added: readonly object[]) =>
    Tokenizer.fromFiles(
      bytes({
        version: "1.0",
        model,
        normalizer,
        added_tokens: added.map((token, i) => ({ ...SPECIAL, id: 30 + i, ...token })),
      }),
      null,
    );
  const letters = [..."abcdehimnorstu_|<>\n ?/"];

  it("where they are looked for in normalized text", () => {
    const vocab = Object.fromEntries(letters.map((letter, i) => [letter, i]));
    const model = { type: "BPE", vocab, merges: [] };
    const added = ["start", "end"].map((name) => ({ content: `<|im_${name}|>`, normalized: true }));
    const tokenizer = describedAs(model, { type: "Lowercase" }, added);
    expect(() => asked(tokenizer, [user("<|IM_END|>")])).toThrow(
      expect.objectContaining({ code: "input.special_tokens" }),
    );
    expect(asked(tokenizer, [user("EAT")])).toContain(letters.length);
  });

  it("where they are pieces of the vocabulary", () => {
    const vocab = [["<unk>", 0], ["</s>", -1], ...letters.map((letter) => [letter, -2])];
    const model = { type: "Unigram", vocab, unk_id: 0 };
    const added = [
      { content: "<unk>", id: 0, normalized: false },
      { content: "</s>", id: 1, normalized: false },
    ];
    const tokenizer = describedAs(model, null, added);
    expect(() => asked(tokenizer, [user("ss</s>ss")])).toThrow(/the special token "<\/s>"/);
    expect(asked(tokenizer, [user("日本")])).toContain(0);
  });
});
