import { expect, it } from "vitest";
import { newConversation } from "../../chat/conversations.ts";
import { measured } from "../../chat/measure.ts";
import { EdgewiseError } from "../../errors.ts";
import { speaker } from "./speaker.ts";

const FILES = [{ name: "a.txt", text: "one" }];

it("what a question comes to with its files is counted, and nothing is answered", async () => {
  const model = speaker({ context: 512 });
  const counting = measured(model.answers, newConversation(), "Which?", FILES);
  expect(model.speeches[0]?.messages).toEqual([
    { role: "user", content: "File a.txt:\n```\none\n```\n\nWhich?" },
  ]);
  expect(await counting).toEqual({ tokens: 12, context: 512, droppedTurns: 0 });
});

it("a question that the context does not hold is told from one that was not counted", async () => {
  const tooLong = new EdgewiseError("input.context", "It has 900 tokens.", "Shorten it.");
  for (const [error, found] of [
    [tooLong, { problem: "It has 900 tokens. Shorten it." }],
    [new EdgewiseError("engine.busy", "Too many wait.", ""), null],
  ] as const) {
    const model = speaker();
    const { chat } = model.answers;
    const answers = {
      ...model.answers,
      chat: (...asked: Parameters<typeof chat>) => {
        const generation = chat(...asked);
        model.speeches[0]?.fail(error);
        return { ...generation, completion: generation.completion, stop: () => {} };
      },
    };
    expect(await measured(answers as typeof model.answers, newConversation(), "?", FILES)).toEqual(
      found,
    );
  }
});
