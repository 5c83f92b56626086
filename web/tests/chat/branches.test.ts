import { describe, expect, it } from "vitest";
import { endOf, pathTo, shownOf, turnTo, versionsOf } from "../../chat/branches.ts";
import type { ChatMessage, Conversation } from "../../chat/conversations.ts";
import { newConversation } from "../../chat/conversations.ts";

/** A message named by its id; those of an even depth are questions. */
function said(id: string, parent: string | null): ChatMessage {
  return { id, parent, role: id.startsWith("q") ? "user" : "assistant", content: id };
}

/**
 *     q1 ─ a1 ─ q2 ─ a2
 *        └ b1 ┬ q3 ─ a3
 *             └ q4
 *     r1
 */
const MESSAGES = [
  said("q1", null),
  said("a1", "q1"),
  said("q2", "a1"),
  said("a2", "q2"),
  said("b1", "q1"),
  said("q3", "b1"),
  said("a3", "q3"),
  said("q4", "b1"),
  { ...said("r1", null), role: "user" as const },
];
const conversation = (leaf: string): Conversation => ({
  ...newConversation(1),
  messages: MESSAGES,
  leaf,
});
const ids = (messages: readonly ChatMessage[]) => messages.map(({ id }) => id).join(" ");

describe("a branch", () => {
  it("goes from the beginning to its last message", () => {
    expect(ids(shownOf(conversation("a3")))).toBe("q1 b1 q3 a3");
    expect(ids(pathTo(MESSAGES, "q2"))).toBe("q1 a1 q2");
    expect(pathTo(MESSAGES, null)).toEqual([]);
    expect(pathTo(MESSAGES, "nobody's")).toEqual([]);
  });

  it("ends with the answer that is being written, whatever is shown else", () => {
    expect(ids(shownOf(conversation("r1"), said("a9", "q2")))).toBe("q1 a1 q2 a9");
    const going = { ...said("a3", "q3"), content: "More" };
    expect(shownOf(conversation("a3"), going).at(-1)).toBe(going);
  });

  it("knows the versions of its messages", () => {
    const shown = shownOf(conversation("a3"));
    expect(versionsOf(MESSAGES, shown)).toEqual([
      { at: 1, of: 2 },
      { at: 2, of: 2 },
      { at: 1, of: 2 },
      { at: 1, of: 1 },
    ]);
    const writing = shownOf(conversation("a3"), said("a9", "q2"));
    expect(versionsOf(MESSAGES, writing).at(-1)).toEqual({ at: 2, of: 2 });
  });
});

describe("turning to another version", () => {
  it.each([
    ["a1", 1, "q1 b1 q4"],
    ["b1", -1, "q1 a1 q2 a2"],
    ["b1", 1, "q1 a1 q2 a2"],
    ["a1", -1, "q1 b1 q4"],
    ["q4", -1, "q1 b1 q3 a3"],
    ["q1", 1, "r1"],
    ["q2", 1, "q1 a1 q2 a2"],
    ["nobody's", 1, "q1 a1 q2 a2"],
  ])("from %s by %i shows %s", (id, step, shown) => {
    expect(ids(shownOf(turnTo(conversation("a2"), id, step)))).toBe(shown);
  });

  it("shows what was said last after it", () => {
    expect([endOf(MESSAGES, "q1"), endOf(MESSAGES, "q3"), endOf(MESSAGES, "r1")]).toEqual([
      "q4",
      "a3",
      "r1",
    ]);
  });
});
