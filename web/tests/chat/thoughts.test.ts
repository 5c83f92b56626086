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
const OPENED: Thinking = { ...QWEN, opened: { on: true, off: false } };

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
  const timed = (...pieces: string[]) => {
    const timer = new ThoughtTimer();
    return pieces.map((piece, i) => timer.add(piece, 100 + i * 10).thoughtMs);
  };

  it("runs from the first piece to the mark at its end, however the marks are cut", () => {
    expect(timed("<think>", "hm", "</think>", "Hello")).toEqual([0, 10, 20, undefined]);
    expect(timed("\n<th", "ink>h", "m</thi", "nk>Hel", "lo")).toEqual([
      undefined,
      10,
      20,
      30,
      undefined,
    ]);
  });

  it("goes on with an answer that goes on", () => {
    const timer = new ThoughtTimer(5000);
    expect(timer.add("<think>hm", 100)).toEqual({ thoughtMs: 5000 });
    expect(timer.add(" hm", 350)).toEqual({ thoughtMs: 5250 });
  });

  it("is not noted of an answer that is not thought about", () => {
    expect(timed("Hel", "lo <think>", "</think>")).toEqual([undefined, undefined, undefined]);
  });

  it("looks at no more than the last piece and a few characters", () => {
    const timer = new ThoughtTimer();
    timer.add("<think>", 0);
    for (let i = 0; i < 1000; i++) timer.add("word ", i);
    expect(JSON.stringify(timer).length).toBeLessThan(100);
  });
});

describe("a question", () => {
  const asked = (thinking: Thinking | null, variables?: Readonly<Record<string, unknown>>) => {
    const model = speaker({ thinking });
    const messages = [
      { role: "user", content: "One?" },
      { role: "assistant", content: "<think>\nhm\n</think>\n\n1" },
      { role: "user", content: "Two?" },
      { role: "assistant", content: "<think>\ncut off" },
      { role: "user", content: "<think>mine</think>" },
    ];
    const generation = answerOf(model.answers, messages, variables ? { variables } : {});
    const [speech] = model.speeches;
    if (!speech) throw new Error("nothing was asked");
    return { generation, speech };
  };
  const contents = (thinking: Thinking | null) =>
    asked(thinking).speech.messages.map(({ content }) => content);

  it("comes without earlier thoughts where the template forgets them", () => {
    expect(contents(QWEN)).toEqual(["One?", "1", "Two?", "", "<think>mine</think>"]);
  });

  it("comes with them where it does not, and where nothing is known", () => {
    const all = [
      "One?",
      "<think>\nhm\n</think>\n\n1",
      "Two?",
      "<think>\ncut off",
      "<think>mine</think>",
    ];
    expect(contents({ ...QWEN, forgets: false })).toEqual(all);
    expect(contents(null)).toEqual(all);
  });

  it("has an answer that begins with a mark where the prompt ended with it", async () => {
    const { generation, speech } = asked(OPENED);
    speech.say("hm\n</think>");
    speech.say("\n\nHello");
    speech.end();
    const pieces: string[] = [];
    for await (const piece of generation) pieces.push(piece);
    expect(pieces).toEqual(["<think>\nhm\n</think>", "\n\nHello"]);
  });

  it("has none of it where thinking is switched off, and is stopped as any other", async () => {
    const { generation, speech } = asked(OPENED, { enable_thinking: false });
    speech.say("Hello");
    generation.stop();
    let text = "";
    for await (const piece of generation) text += piece;
    expect(text).toBe("Hello");
    expect((await generation.completion).finishReason).toBe("cancelled");
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
