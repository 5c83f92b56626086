import { describe, expect, it } from "vitest";
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
    expect(readConversation(kept)?.messages[1]).toEqual({
      ...TREE.messages[1],
      thought: "hm",
      calls: [call],
    });
  });

  it("with its thought in its text has them apart", () => {
    const content = "<think>\nhm\n</think>\n\nA block.";
    expect(readConversation(changed(1, { content }))?.messages[1]).toEqual({
      ...TREE.messages[1],
      thought: "hm",
    });
    expect(readConversation(changed(0, { content }))?.messages[0]?.content).toBe(content);
  });

  it("as a list becomes a branch", () => {
    const read = readConversation(LIST);
    expect(read?.messages.map(({ parent }) => parent)).toEqual([null, "q", "a"]);
    expect(read && shownOf(read).map(({ content }) => content)).toEqual([
      "A page?",
      "A block.",
      "And a prefix?",
    ]);
    const noted = { contextFull: false, context: 0, droppedTurns: 0 };
    expect(read?.messages[1]?.stats).toEqual({ ...STATS, ...noted });
    expect(read).toMatchObject({ title: "Pages", system: "Be brief.", settings: LIST.settings });
  });

  it.each(["long", -1, Number.NaN, null])("has no thought that took %j", (thoughtMs) => {
    expect(readConversation(changed(1, { thoughtMs }))?.messages[1]).toEqual(TREE.messages[1]);
  });

  it("shows the end of a branch, whatever was noted", () => {
    expect(readConversation(TREE)?.leaf).toBe("a");
    expect(readConversation({ ...TREE, leaf: "q" })?.leaf).toBe("b");
    expect(readConversation({ ...TREE, leaf: "nobody's" })?.leaf).toBe("b");
    expect(readConversation({ ...TREE, messages: [] })?.leaf).toBeNull();
  });

  it.each([
    ["nothing", null],
    ["a list", []],
    ["no title", { ...LIST, title: undefined }],
    ["no settings", { ...LIST, settings: null }],
    ["messages that are none", { ...LIST, messages: ["Hello"] }],
    ["a role that is none", changed(0, { role: "system" })],
    ["a message twice", changed(2, { id: "a" })],
    ["a message that follows itself", changed(1, { parent: "a" })],
    ["a message that follows a later one", changed(1, { parent: "b" })],
    ["a message that follows no other", changed(1, { parent: "nobody's" })],
    ["content that is no text", changed(0, { content: 3 })],
  ])("is none where there is %s", (_, value) => {
    expect(readConversation(value)).toBeNull();
  });

  it("is without what of an answer cannot be", () => {
    const read = readConversation(
      changed(1, {
        stats: { ...STATS, tokens: "3" },
        cut: { tokenizer: "t", tokens: [1.5] },
        thoughtMs: "long",
      }),
    );
    expect(read?.messages[1]).toEqual(TREE.messages[1]);
  });
});
