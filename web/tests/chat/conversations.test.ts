import { describe, expect, it } from "vitest";
import { shownOf } from "../../chat/branches.ts";
import {
  type AnswerStats,
  answer,
  ask,
  blankAnswer,
  type ChatMessage,
  type Conversation,
  edit,
  forgotten,
  newConversation,
  prompt,
  titleOf,
  tokensOf,
  turnStart,
  UNTITLED,
} from "../../chat/conversations.ts";

const STATS: AnswerStats = {
  ttftMs: 80,
  tokensPerSecond: 20,
  tokens: 30,
  promptTokens: 200,
  cachedTokens: 16,
  finish: "stop",
  contextFull: false,
  context: 256,
  droppedTurns: 0,
};

function reply(conversation: Conversation, id: string, content: string): ChatMessage {
  return { id, parent: conversation.leaf, role: "assistant", content };
}

function talked(
  conversation: Conversation,
  question: string,
  id: string,
  content: string,
  now = 1,
) {
  const asked = ask(conversation, question, now);
  return answer(asked, reply(asked, id, content), now + 1);
}

/** Two questions, each with its answer. */
function talk(): Conversation {
  const first = talked(newConversation(1), "What is a page?", "a1", "A block.", 2);
  return talked(first, "And a prefix?", "a2", "A beginning.", 4);
}

const said = (conversation: Conversation) => shownOf(conversation).map(({ content }) => content);
const given = (conversation: Conversation, written = blankAnswer(conversation), context = 256) => {
  if (!written) throw new Error("there is no question");
  return prompt(conversation, written, context);
};

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

  it("replaces an answer that grows, where it is", () => {
    const asked = ask(newConversation(), "Hello");
    const grown = answer(answer(asked, reply(asked, "a", "H")), reply(asked, "a", "Hi"));
    expect(said(grown)).toEqual(["Hello", "Hi"]);
    const other = answer(grown, reply(asked, "b", "Good day"));
    const again = answer(other, reply(asked, "a", "Hi there"));
    expect(again.messages.map(({ content }) => content)).toEqual(["Hello", "Hi there", "Good day"]);
    expect(said(again)).toEqual(["Hello", "Hi there"]);
  });

  it("shows an edited question and nothing after it, and keeps the branch that was", () => {
    const whole = talk();
    const [first, , second] = whole.messages;
    const later = edit(whole, second?.id ?? "", "And a suffix?");
    expect(said(later)).toEqual(["What is a page?", "A block.", "And a suffix?"]);
    expect(said(edit(whole, first?.id ?? "", "What is a ring?"))).toEqual(["What is a ring?"]);
    expect(later.messages.slice(0, 4)).toEqual(whole.messages);
    expect(edit(whole, "nobody's", "Hello")).toBe(whole);
  });

  it("has its files with a question, in whatever words it is asked", () => {
    const files = [{ name: "a.txt", text: "one" }];
    const asked = ask(newConversation(), "", 1, files);
    expect(asked.title).toBe("a.txt");
    expect(given(asked).messages[0]?.content).toBe("File a.txt:\n```\none\n```\n");
    const other = edit(asked, asked.messages[0]?.id ?? "", "Which?");
    expect(other.messages[1]).toMatchObject({ content: "Which?", files });
    expect(given(other).messages[0]?.content).toBe("File a.txt:\n```\none\n```\n\nWhich?");
  });

  it("takes the name of its first question again when that is edited, but no other name", () => {
    const whole = talk();
    const [first, , second] = whole.messages;
    expect(edit(whole, first?.id ?? "", "What is a ring?").title).toBe("What is a ring?");
    expect(edit({ ...whole, title: "Mine" }, first?.id ?? "", "New").title).toBe("Mine");
    expect(edit(whole, second?.id ?? "", "And a suffix?").title).toBe("What is a page?");
  });

  it("has another answer to its last question beside the one there is", () => {
    const whole = talk();
    const blank = blankAnswer(whole);
    expect(blank).toMatchObject({ parent: whole.messages[2]?.id, role: "assistant", content: "" });
    expect(blankAnswer(newConversation())).toBeNull();
  });
});

describe("what the model is given", () => {
  it("are the turns up to the answer, the system prompt first where there is one", () => {
    const whole = talk();
    const contents = ["What is a page?", "A block.", "And a prefix?"];
    expect(given(whole).messages.map(({ content }) => content)).toEqual(contents);
    expect(given(whole).messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
    expect(given({ ...whole, system: "Be brief." }).messages[0]).toEqual({
      role: "system",
      content: "Be brief.",
    });
    expect(given({ ...whole, system: "  " }).messages).toHaveLength(3);
  });

  it("has no answer that never came", () => {
    const empty = talked(newConversation(), "Hello", "a", "");
    expect(given(ask(empty, "Hello?")).messages.map(({ content }) => content)).toEqual([
      "Hello",
      "Hello?",
    ]);
  });

  it("has the calls of tools that are whole, and thoughts", () => {
    const asked = ask(newConversation(), "Hello");
    const call = { index: 0, id: "c1", name: "add", arguments: '{"x": 1}', complete: true };
    const calls = [call, { ...call, index: 1, complete: false }];
    const called = answer(asked, { ...reply(asked, "a", ""), thought: "hm", calls });
    expect(given(ask(called, "And now?")).messages[1]).toEqual({
      role: "assistant",
      content: "",
      reasoning_content: "hm",
      tool_calls: [
        { id: "c1", type: "function", function: { name: "add", arguments: '{"x": 1}' } },
      ],
    });
    const cut = answer(asked, { ...reply(asked, "a", ""), calls: calls.slice(1) });
    expect(given(ask(cut, "And now?")).messages).toHaveLength(2);
  });

  it("begins where the last answer's did, in a context of the same size", () => {
    let whole = talk();
    const cut = { ...STATS, droppedTurns: 1 };
    whole = answer(whole, {
      ...reply(whole, "a2", "A beginning."),
      parent: whole.messages[2]?.id ?? "",
      stats: cut,
    });
    const next = ask({ ...whole, system: "Be brief." }, "And then?");
    expect(given(next)).toMatchObject({
      messages: ["Be brief.", "And a prefix?", "A beginning.", "And then?"].map((content) => ({
        content,
      })),
      droppedTurns: 1,
    });
    expect(given(next, blankAnswer(next), 512)).toMatchObject({ droppedTurns: 0 });
    const last = whole.messages.at(-1) ?? null;
    expect(given(whole, last)).toMatchObject({ droppedTurns: 1, messages: [{ role: "user" }] });
  });
});

describe("a branch that was read", () => {
  const path = shownOf(talk()).map((message, i) =>
    i === 3 ? { ...message, stats: STATS } : message,
  );

  it("came to so many tokens", () => {
    expect(tokensOf(path)).toBe(230);
    expect(tokensOf(path.slice(0, 3))).toBe(0);
  });

  it("was read without turns that a context of that size does not hold", () => {
    const full = path.map((m) => (m.stats ? { ...m, stats: { ...STATS, droppedTurns: 1 } } : m));
    expect([forgotten(full, 256), forgotten(full, 512), forgotten(full, null)]).toEqual([1, 0, 1]);
    expect(forgotten(path.slice(0, 3), 256)).toBe(0);
  });

  it("has turns that begin with questions", () => {
    expect([0, 1, 2].map((turn) => turnStart(path, turn))).toEqual([0, 2, 4]);
    expect(turnStart(path.slice(1), 0)).toBe(0);
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
