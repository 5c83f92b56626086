/** A format is told by the text of a chat template, or by its name. */

import { expect, test } from "vitest";
import { shownBy } from "../../calls/format.ts";
import { FORMATS, formatNamed, formatOf } from "../../calls/formats.ts";
import { templates } from "./cases.ts";

test.each(templates)("%s is told by %j", (name, template) => {
  expect(formatOf(template)).toBe(formatNamed(name));
});

test("a name of no format is refused", () => {
  expect(() => formatNamed("xml")).toThrow(
    expect.objectContaining({
      code: "unsupported.calls",
      message: expect.stringContaining('"xml"'),
      remedy: expect.stringContaining("hermes, json, llama3"),
    }),
  );
});

test("the marks of thoughts have to be shown too", () => {
  const shown = shownBy(formatNamed("mistral"));
  expect(shown).toEqual(expect.arrayContaining(["[TOOL_CALLS]", "[ARGS]", "[THINK]", "</think>"]));
});

test.each([...FORMATS.keys()].filter((name) => name !== "llama3" && name !== "json"))(
  "a call that is spelled begins with what triggers one: %s",
  (name) => {
    const { spelling, triggers } = formatNamed(name);
    expect(triggers.some((trigger) => (spelling.first + spelling.begin).startsWith(trigger))).toBe(
      true,
    );
  },
);
