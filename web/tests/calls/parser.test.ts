/** Every format is told into answer, thought and calls as in Python, the same however the text is cut. */

import { describe, expect, it, test } from "vitest";
import { FORMATS } from "../../calls/formats.ts";
import { newId } from "../../calls/parser.ts";
import { MAX_CALL, MAX_SPACE } from "../../calls/source.ts";
import { Random } from "../engine/random.ts";
import { cases, cut, deltasOf, formats, parsed } from "./cases.ts";

describe.each(formats)("%s", (format) => {
  it.each(cases.filter((given) => given.format === format))("is told: $what", (given) => {
    const expected = deltasOf(given.deltas);
    for (const size of [1 << 20, 7, 3, 1]) {
      expect(parsed(given, cut(given.text, [size]))).toEqual(expected);
    }
  });

  it("makes the same of any text, however it is cut, and whole calls of JSON", () => {
    const bits = [
      ...[...FORMATS.values()].flatMap(({ marks, thoughts, spelling }) => [
        ...marks,
        ...thoughts.flat(),
        spelling.begin,
        spelling.named,
      ]),
      ...['{"name": "f", "arguments": {}}', '"a"', "{", "}", "[", "]", ":", ",", " ", "\n", "f"],
      ...["f(a=1)", "'", "\\", "1.5", "true", "```", "<", "|", "call:f{", "é", "😀", "]}", "-"],
      ...["to=functions.f", "<parameter=a>", "<function=f>", "</function>", "</parameter>"],
    ];
    const random = new Random(formats.indexOf(format) + 1);
    for (let i = 0; i < 150; i++) {
      const text = Array.from(
        { length: random.whole(1, 24) },
        () => bits[random.whole(0, bits.length - 1)] ?? "",
      ).join("");
      const given = { format, text, opened: i % 4 === 0 };
      const whole = parsed(given, [text]);
      const sizes = Array.from({ length: 5 }, () => random.whole(1, 9));
      expect(parsed(given, cut(text, sizes))).toEqual(whole);
      for (const delta of whole) {
        if (delta.kind !== "call ends") continue;
        const said = whole.filter((d) => d.kind === "arguments" && d.index === delta.index);
        const json = said.map((d) => (d.kind === "arguments" ? d.text : "")).join("");
        expect(JSON.parse(json)).toBeTypeOf("object");
      }
    }
  });
});

test("every format has cases", () => {
  expect(formats).toEqual([...FORMATS.keys()].sort());
});

test.each([1 << 30, 70_001])("a call that never ends is given up (pieces of %i)", (size) => {
  const begins = '<tool_call>{"name": "f", "arguments": {"a": "';
  const text = begins + "x".repeat(MAX_CALL + 5 - begins.length);
  const deltas = parsed({ format: "hermes", text }, cut(text, [size]));
  expect(deltas.map(({ kind }) => kind)).toEqual([
    "call begins",
    "arguments",
    "no call",
    "content",
  ]);
  expect(deltas[2]).toEqual({
    kind: "no call",
    index: 0,
    text: text.slice(0, MAX_CALL),
    why: "too long",
  });
  expect(deltas[3]).toEqual({ kind: "content", text: "xxxxx" });
});

test("of white space only so much is held back", () => {
  const text = `a${" ".repeat(MAX_SPACE + 10)}<tool_call>{"name": "f"}</tool_call>`;
  const [first] = parsed({ format: "hermes", text }, cut(text, [50]));
  expect(first).toEqual({ kind: "content", text: `a${" ".repeat(10)}` });
});

test("ids are nine letters and digits, and none twice", () => {
  const ids = new Set(Array.from({ length: 100 }, newId));
  expect(ids.size).toBe(100);
  for (const id of ids) expect(id).toMatch(/^[0-9A-Za-z]{9}$/);
});
