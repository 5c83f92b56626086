/** Which answers can go on, and what is said of those that cannot. */

import { h } from "preact";
import { renderToString } from "preact-render-to-string";
import { describe, expect, it } from "vitest";
import { Messages } from "../../chat/components/messages.tsx";
import type { AnswerStats, ChatMessage, Conversation } from "../../chat/conversations.ts";
import { canGoOn, isFull } from "../../chat/going-on.ts";
import { speaker } from "./speaker.ts";

const STATS: AnswerStats = {
  ttftMs: 80,
  tokensPerSecond: 20,
  tokens: 40,
  promptTokens: 24,
  cachedTokens: 0,
  finish: "length",
  contextFull: true,
  context: 64,
  droppedTurns: 0,
};
const CUT = { tokenizer: "words", tokens: [5, 6, 7] };

/** Questions with an answer each, of which the last was cut off. */
function branch(turns: number, stats: Partial<AnswerStats> = {}): ChatMessage[] {
  const last = `a${turns - 1}`;
  const messages = Array.from({ length: turns }, (_, i): ChatMessage[] => [
    { id: `q${i}`, parent: i === 0 ? null : `a${i - 1}`, role: "user", content: "And?" },
    { id: `a${i}`, parent: `q${i}`, role: "assistant", content: "Well" },
  ]).flat();
  return messages.map((message) =>
    message.id === last ? { ...message, stats: { ...STATS, ...stats }, cut: CUT } : message,
  );
}

describe("an answer that was cut off", () => {
  it.each([
    ["by its limit", branch(1, { promptTokens: 8 }), 64, "goes on"],
    ["by the context, alone in it", branch(1), 64, "fills it"],
    ["by the context, with turns that may go", branch(3), 64, "goes on"],
    ["by the context, whose other turns are gone", branch(3, { droppedTurns: 2 }), 64, "fills it"],
    ["by a smaller context than there is now", branch(1), 128, "goes on"],
  ])("%s", (_, messages, context, expected) => {
    const { answers } = speaker({ context });
    expect(canGoOn(messages, answers)).toBe(expected === "goes on");
    expect(isFull(messages, answers)).toBe(expected === "fills it");
  });

  it("of another tokenizer neither goes on nor fills anything", () => {
    const { answers } = speaker({ context: 64, tokenizer: "letters" });
    expect([canGoOn(branch(1), answers), isFull(branch(1), answers)]).toEqual([false, false]);
  });

  it.each([
    [64, false],
    [128, true],
  ])(
    "offers to go on in a context of %i tokens: %s; else what helps is said",
    (context, offered) => {
      const messages = branch(1);
      const conversation: Conversation = {
        id: "c",
        title: "And?",
        updated: 0,
        system: "",
        settings: {},
        messages,
        leaf: "a0",
      };
      const nothing = () => {};
      const page = renderToString(
        h(Messages, {
          conversation,
          writing: undefined,
          engine: speaker({ context }).answers,
          onEdit: nothing,
          onRegenerate: nothing,
          onGoOn: nothing,
          onTurn: nothing,
        }),
      );
      expect(page.includes('data-testid="continue"')).toBe(offered);
      expect(page.includes("Ask something else, or load the model with a larger context")).toBe(
        !offered,
      );
    },
  );
});
