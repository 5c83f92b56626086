/** What a chat template does about thoughts is found out by asking it. */

import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../engine/template.ts";
import { thinkingOf } from "../../engine/thinking.ts";
import { templateCases } from "./cases.ts";

const { templates, special_tokens: special } = templateCases;
const of = (source: string) =>
  thinkingOf(new ChatTemplate(source, new Map(Object.entries(special))));
const CLOSED = { on: false, off: false };

describe("a template", () => {
  it.each([
    ["that knows nothing of thoughts", "chatml", false, true, CLOSED, false],
    ["with a date in it", "dated", false, true, CLOSED, false],
    ["that can be switched off", "thinking", true, true, CLOSED, true],
    [
      "that begins an answer's thought itself",
      "opening",
      true,
      true,
      { on: true, off: false },
      true,
    ],
    ["that always begins one", "always", false, true, { on: true, off: true }, true],
    ["that thinks only when asked", "asked", true, false, { on: true, off: false }, false],
  ])("%s", (_, name, switchable, byDefault, opened, forgets) => {
    expect(of(templates[name] ?? "")).toEqual({ switchable, byDefault, opened, forgets });
  });

  it("that writes the time is not taken for one that can be switched", () => {
    const times = Array.from({ length: 9 }, (_, second) => new Date(2031, 1, 7, 15, 4, second));
    const clock = "{{ strftime_now('%S') }}{{ messages[0].content }}";
    const template = new ChatTemplate(clock, new Map(), () => times.pop() ?? new Date());
    expect(thinkingOf(template).switchable).toBe(false);
  });

  it("that refuses every conversation is taken for one that knows nothing", () => {
    const refusing = "{{ raise_exception('no') }}";
    expect(of(refusing)).toEqual({
      switchable: false,
      byDefault: true,
      opened: CLOSED,
      forgets: false,
    });
  });
});
