import { describe, expect, it } from "vitest";
import { MOST } from "../../chat/bounds.ts";
import { shownOf } from "../../chat/branches.ts";
import { answer, ask, edit, newConversation } from "../../chat/conversations.ts";
import { readConversation } from "../../chat/stored.ts";

const STATS = {
  ttftMs: 80.5,
  tokensPerSecond: 20,
  tokens: 3,
  promptTokens: 12,
  cachedTokens: 4,
  finish: "length",
};
/** As the first version of the app kept it. */
const LIST = {
  id: "c",
  title: "Pages",
  updated: 5,
  system: "Be brief.",
  settings: { temperature: 0 },
  messages: [
    { id: "q", role: "user", content: "A page?" },
    { id: "a", role: "assistant", content: "A block.", stats: STATS },
    { id: "r", role: "user", content: "And a prefix?" },
  ],
};
const TREE = {
  ...LIST,
  leaf: "a",
  messages: [
    { id: "q", parent: null, role: "user", content: "A page?" },
    { id: "a", parent: "q", role: "assistant", content: "A block." },
    { id: "b", parent: "q", role: "assistant", content: "Paper." },
  ],
};
const changed = (at: number, changes: object) => ({
  ...TREE,
  messages: TREE.messages.map((message, i) => (i === at ? { ...message, ...changes } : message)),
});

describe("a conversation that was kept", () => {
  it("is the one that was said, with all its versions", () => {
    const asked = ask(newConversation(1), "Hello", 2);
    const cut = { tokenizer: "t", tokens: [1, 2] };
    const stats = { ...STATS, finish: "length", contextFull: true, context: 64, droppedTurns: 1 };
    const whole = answer(asked, {
      id: "a",
      parent: asked.leaf,
      role: "assistant",
      content: "Hi",
      stats: { ...stats, finish: "length" },
      cut,
      thoughtMs: 3200,
    });
    const other = edit(whole, whole.messages[0]?.id ?? "", "Good day", 4);
    expect(readConversation(structuredClone(other))).toEqual(other);
  });

  it("has its thought and its calls", () => {
    const call = { index: 0, id: "c1", name: "add", arguments: '{"x": 1}', complete: true };
    const kept = changed(1, { thought: "hm", calls: [call, { ...call, name: 3 }, null] });
    expect(readConversation(kept).messages[1]).toEqual({
      ...TREE.messages[1],
      thought: "hm",
      calls: [call],
    });
  });

  it("with its thought in its text has them apart", () => {
    const content = "<think>\nhm\n</think>\n\nA block.";
    expect(readConversation(changed(1, { content })).messages[1]).toEqual({
      ...TREE.messages[1],
      thought: "hm",
    });
    expect(readConversation(changed(0, { content })).messages[0]?.content).toBe(content);
  });

  it("has the files that it was asked about", () => {
    const files = [{ name: "a.txt", text: "one" }];
    expect(readConversation(changed(0, { files })).messages[0]).toEqual({
      ...TREE.messages[0],
      files,
    });
  });

  it("as a list becomes a branch", () => {
    const read = readConversation(LIST);
    expect(read.messages.map(({ parent }) => parent)).toEqual([null, "q", "a"]);
    expect(shownOf(read).map(({ content }) => content)).toEqual([
      "A page?",
      "A block.",
      "And a prefix?",
    ]);
    const noted = { contextFull: false, context: 0, droppedTurns: 0 };
    expect(read.messages[1]?.stats).toEqual({ ...STATS, ...noted });
    expect(read).toMatchObject({ title: "Pages", system: "Be brief.", settings: LIST.settings });
  });

  it.each(["long", -1, Number.NaN, null])("has no thought that took %j", (thoughtMs) => {
    expect(readConversation(changed(1, { thoughtMs })).messages[1]).toEqual(TREE.messages[1]);
  });

  it("shows the end of a branch, whatever was noted", () => {
    expect(readConversation(TREE).leaf).toBe("a");
    expect(readConversation({ ...TREE, leaf: "q" }).leaf).toBe("b");
    expect(readConversation({ ...TREE, leaf: "nobody's" }).leaf).toBe("b");
    expect(readConversation({ ...TREE, messages: [] }).leaf).toBeNull();
  });

  it.each([
    ["nothing", null, "A conversation is null, not an object."],
    ["a list", [], "A conversation is [], not an object."],
    ["no title", { ...LIST, title: undefined }, "title is undefined, not a text."],
    ["no settings", { ...LIST, settings: null }, "settings is null, not an object."],
    ["no time", { ...LIST, updated: -1 }, "updated is -1, not a time."],
    [
      "messages that are none",
      { ...LIST, messages: ["Hi"] },
      'messages[0] is "Hi", not an object.',
    ],
    ["a role that is none", changed(0, { role: "system" }), 'messages[0].role is "system"'],
    ["a message twice", changed(2, { id: "a" }), 'messages[2].id is "a", not an id of its own.'],
    ["a message that follows itself", changed(1, { parent: "a" }), 'messages[1].parent is "a"'],
    ["one that follows a later one", changed(1, { parent: "b" }), 'messages[1].parent is "b"'],
    ["one that follows no other", changed(1, { parent: "x" }), 'messages[1].parent is "x"'],
    [
      "content that is no text",
      changed(0, { content: 3 }),
      "messages[0].content is 3, not a text.",
    ],
  ])("is none where there is %s", (_, value, words) => {
    expect(() => readConversation(value)).toThrow(words);
  });

  it.each([
    ["an id", { id: "c".repeat(MOST.id + 1) }, "id is "],
    ["a title", { title: "T".repeat(MOST.title + 1) }, "at most 200 characters"],
    ["a system prompt", { system: "S".repeat(MOST.system + 1) }, "at most 20000 characters"],
    ["a text", changed(1, { content: "t".repeat(MOST.text + 1) }), "messages[1].content is"],
    ["a thought", changed(1, { thought: "t".repeat(MOST.text + 1) }), "messages[1].thought is"],
    [
      "files",
      changed(0, { files: Array(11).fill(null) }),
      "messages[0].files is 11, not at most 10",
    ],
    [
      "a file's name",
      changed(0, { files: [{ name: "n".repeat(101), text: "" }] }),
      "files[0].name is",
    ],
    ["a file that is none", changed(0, { files: [{ name: "n" }] }), "files[0].text is undefined"],
    ["messages", { messages: Array(MOST.messages + 1).fill(null) }, "10001, not at most 10000"],
  ])("is none beyond its bounds: %s", (_, changes, words) => {
    const value = { ...TREE, ...changes };
    expect(() => readConversation(value)).toThrow(words);
  });

  it("with as many messages as there may be is read at once", () => {
    const messages = Array.from({ length: MOST.messages }, (_, i) => ({
      id: `${i}`,
      role: i % 2 === 0 ? "user" : "assistant",
      content: "",
    }));
    const read = readConversation({ ...LIST, messages, leaf: "0" });
    expect(read.leaf).toBe(`${MOST.messages - 1}`);
  });

  it("is without what of an answer cannot be", () => {
    const read = readConversation(
      changed(1, {
        stats: { ...STATS, tokens: "3" },
        cut: { tokenizer: "t", tokens: [1.5] },
        thoughtMs: "long",
      }),
    );
    expect(read.messages[1]).toEqual(TREE.messages[1]);
  });
});
