import { describe, expect, it } from "vitest";
import { answerOf, parted, ThoughtTimer, thinks } from "../../chat/thoughts.ts";
import type { Thinking } from "../../client/types.ts";
import { speaker } from "./speaker.ts";

const QWEN: Thinking = {
  switchable: true,
  byDefault: true,
  opened: { on: false, off: false },
  forgets: true,
};

describe("a text with a thought", () => {
  it.each([
    ["nothing of it", "Hello", "", false, "Hello"],
    ["all of it", "<think>\nhm\n</think>\n\nHello", "hm", false, "Hello"],
    ["its beginning", "<think>\nhm", "hm", true, ""],
    ["no more than its mark", " <think>", "", true, ""],
    ["nothing thought", "<think>\n\n</think>\n\nHello", "", false, "Hello"],
    ["no mark where it begins", "hm\n</think>\n\nHello", "hm", false, "Hello"],
    ["a mark at the end of a line", "hm.</think>\nHello", "hm.", false, "Hello"],
    [
      "the end of a thought as a word",
      "Write `</think>` last.",
      "",
      false,
      "Write `</think>` last.",
    ],
    ["a mark in the answer", "See <think> there", "", false, "See <think> there"],
    ["a second mark in the answer", "<think>a</think>b </think> c", "a", false, "b </think> c"],
    ["nothing", "", "", false, ""],
  ])("is parted where there is %s", (_, content, thought, thinking, text) => {
    expect(parted(content)).toEqual({ thought, thinking, text });
  });
});

describe("the time of a thought", () => {
  const thought = { kind: "reasoning", text: "hm" } as const;
  const said = { kind: "content", text: "Hello" } as const;

  it("runs from its first piece to its last", () => {
    const timer = new ThoughtTimer();
    const times = [thought, thought, said, said].map((delta, i) => timer.add(delta, 100 + i * 10));
    expect(times).toEqual([{ thoughtMs: 0 }, { thoughtMs: 10 }, {}, {}]);
  });

  it("goes on with an answer that goes on", () => {
    const timer = new ThoughtTimer(5000);
    expect(timer.add(thought, 100)).toEqual({ thoughtMs: 5000 });
    expect(timer.add(thought, 350)).toEqual({ thoughtMs: 5250 });
  });
});

describe("a question", () => {
  const given = (thinking: Thinking | null) => {
    const model = speaker({ thinking });
    const messages = [
      { role: "user", content: "One?" },
      { role: "assistant", content: "1", reasoning_content: "hm" },
      { role: "user", content: "<think>mine</think>" },
    ];
    answerOf(model.answers, messages, {});
    return model.speeches[0]?.messages;
  };
  const question = { role: "user", content: "<think>mine</think>" };

  it("comes without earlier thoughts where the template forgets them", () => {
    const answer = { role: "assistant", content: "1" };
    expect(given(QWEN)).toEqual([{ role: "user", content: "One?" }, answer, question]);
  });

  it.each([{ ...QWEN, forgets: false }, null])("comes with them otherwise (%j)", (thinking) => {
    const answer = { role: "assistant", content: "<think>\nhm\n</think>\n\n1" };
    expect(given(thinking)).toEqual([{ role: "user", content: "One?" }, answer, question]);
  });
});

describe("whether a model thinks", () => {
  it.each([
    ["by its default", QWEN, {}, true],
    ["where it is switched off", QWEN, { variables: { enable_thinking: false } }, false],
    [
      "where it is switched on",
      { ...QWEN, byDefault: false },
      { variables: { enable_thinking: true } },
      true,
    ],
    [
      "where it cannot be switched",
      { ...QWEN, switchable: false },
      { variables: { enable_thinking: false } },
      true,
    ],
    ["where what is asked is no switch", QWEN, { variables: { enable_thinking: "no" } }, true],
  ])("is known %s", (_, thinking, options, expected) => {
    expect(thinks(thinking, options)).toBe(expected);
  });
});
