/** What a generation_config.json asks for is done, or named: never passed over in silence. */

import { expect, test } from "vitest";
import { defaultsFrom } from "../../engine/model-defaults.ts";
import { fileOf } from "./cases.ts";

type Case = {
  readonly config: object;
  readonly defaults?: Readonly<Record<string, unknown>>;
  readonly ignored?: readonly string[];
  readonly error?: string;
};

const CASES: readonly Case[] = JSON.parse(
  new TextDecoder().decode(fileOf("tests/text/model-defaults.json")),
);
const IDS = { vocab: 320, eos: [1] };
const file = (text: string) => new TextEncoder().encode(text);
const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());

test.each(CASES.map((one, i) => [i, one] as const))("file %i is read as in Python", (_, one) => {
  const read = () => defaultsFrom(file(JSON.stringify(one.config)), IDS);
  if (one.error !== undefined) {
    expect(read).toThrow(expect.objectContaining({ code: one.error }));
    return;
  }
  const { defaults, ignored } = read();
  const expected = Object.entries(one.defaults ?? {}).map(([name, value]) => [camel(name), value]);
  expect(defaults).toEqual(Object.fromEntries(expected));
  expect(ignored.map((name) => name.split("=")[0])).toEqual(one.ignored);
});

test("more tokens than can be kept from coming are named", () => {
  const config = { suppress_tokens: Array.from({ length: 321 }, (_, i) => i) };
  const { defaults, ignored } = defaultsFrom(file(JSON.stringify(config)));
  expect(defaults).toEqual({});
  expect(ignored).toEqual(["suppress_tokens and bad_words_ids of 321 tokens"]);
});
test("a model that says nothing sets nothing", () => {
  expect(defaultsFrom(null).defaults).toEqual({});
  expect(defaultsFrom(file('{"min_p": null}')).defaults).toEqual({});
});

test("a model that does not sample is greedy", () => {
  const config = file('{"do_sample": false, "temperature": 0.6, "max_new_tokens": 9}');
  expect(defaultsFrom(config).defaults).toEqual({ temperature: 0, maxTokens: 9 });
});

test.each(['{"top_p": 7}', '{"top_p": "x"}', "[]", "{", "", "\ud800"])(
  "an unusable default is the bundle's fault: %s",
  (text) => {
    expect(() => defaultsFrom(file(text))).toThrow(
      expect.objectContaining({ code: "bundle.generation_config" }),
    );
  },
);

test("the message says which default it is", () => {
  expect(() => defaultsFrom(file('{"top_p": 7}'))).toThrow("topP is 7");
});
