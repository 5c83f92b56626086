import { describe, expect, it } from "vitest";
import {
  answer,
  ask,
  type ChatMessage,
  edit,
  newConversation,
  prompt,
  titleOf,
  truncated,
  UNTITLED,
  unanswered,
} from "../../chat/conversations.ts";

const reply = (id: string, content: string): ChatMessage => ({ id, role: "assistant", content });

/** Two questions, each with its answer. */
function talk() {
  const first = answer(ask(newConversation(1), "What is a page?", 2), reply("a1", "A block."), 3);
  return answer(ask(first, "And a prefix?", 4), reply("a2", "A beginning."), 5);
}

describe("a conversation", () => {
  it("is named by its first question and keeps the name", () => {
    expect(newConversation().title).toBe(UNTITLED);
    expect(talk().title).toBe("What is a page?");
    expect(ask({ ...newConversation(), title: "Mine" }, "Hello").title).toBe("Mine");
  });

  it("changes by copies, so that what is shown never changes under a reader", () => {
    const start = newConversation(1);
    const asked = ask(start, "Hello", 2);
    expect(start.messages).toEqual([]);
    expect(asked).toMatchObject({ updated: 2, messages: [{ role: "user", content: "Hello" }] });
  });

  it("replaces an answer that grows", () => {
    const asked = ask(newConversation(), "Hello");
    const grown = answer(answer(asked, reply("a", "H")), reply("a", "Hi"));
    expect(grown.messages.map(({ content }) => content)).toEqual(["Hello", "Hi"]);
  });

  it("loses an edited question and everything after it", () => {
    const whole = talk();
    const [first, , second] = whole.messages;
    expect(truncated(whole, second?.id ?? "").messages.map(({ content }) => content)).toEqual([
      "What is a page?",
      "A block.",
    ]);
    expect(truncated(whole, first?.id ?? "").messages).toEqual([]);
    expect(truncated(whole, "nobody's")).toBe(whole);
  });

  it("takes the name of its first question again when that is edited, but no other name", () => {
    const whole = talk();
    const [first, , second] = whole.messages;
    const edited = edit(whole, first?.id ?? "", "What is a ring?");
    expect([edited.title, edited.messages.length]).toEqual(["What is a ring?", 1]);
    expect(edit({ ...whole, title: "Mine" }, first?.id ?? "", "New").title).toBe("Mine");
    const later = edit(whole, second?.id ?? "", "And a suffix?");
    expect([later.title, later.messages.length]).toEqual(["What is a page?", 3]);
  });

  it("is without its last answer when that is made anew", () => {
    const contents = unanswered(talk())?.messages.map(({ content }) => content);
    expect(contents).toEqual(["What is a page?", "A block.", "And a prefix?"]);
    expect(unanswered(newConversation())).toBeNull();
  });

  it("gives the model its turns, the system prompt first where there is one", () => {
    const turns = ["user", "assistant", "user", "assistant"];
    expect(prompt(talk()).map(({ role }) => role)).toEqual(turns);
    expect(prompt({ ...talk(), system: "Be brief." })[0]).toEqual({
      role: "system",
      content: "Be brief.",
    });
    expect(prompt({ ...talk(), system: "  " })).toHaveLength(4);
  });

  it("leaves out an answer that never came", () => {
    const empty = answer(ask(newConversation(), "Hello"), reply("a", ""));
    expect(prompt(empty)).toEqual([{ role: "user", content: "Hello" }]);
  });
});

describe("a title", () => {
  it.each([
    ["  Hello\n there ", "Hello there"],
    ["", UNTITLED],
    ["a".repeat(60), `${"a".repeat(48)}…`],
    [`${"word ".repeat(20)}`, `${"word ".repeat(9).trim()}…`],
  ])("of %j is %j", (text, title) => {
    expect(titleOf(text)).toBe(title);
  });
});
