import { expect, it } from "vitest";
import { answer, ask, type Conversation, newConversation } from "../../chat/conversations.ts";
import { type Extent, exported } from "../../chat/export.ts";
import { readConversation } from "../../chat/stored.ts";

function talk(): Conversation {
  const asked = ask(newConversation(1), "Hello", 2);
  const reply = (id: string) =>
    ({ id, parent: asked.leaf, role: "assistant", content: id }) as const;
  const cut = { tokenizer: "t", tokens: [1] };
  return answer(answer(asked, { ...reply("First"), cut }, 3), reply("Second"), 4);
}

it.each([
  ["shown", ["Hello", "Second"]],
  ["all", ["Hello", "First", "Second"]],
] as const)("what is saved of a conversation is %s that was said", (extent: Extent, contents) => {
  const { version, conversations } = JSON.parse(exported([talk()], extent));
  expect(version).toBe(2);
  const read = readConversation(conversations[0]);
  expect(read.messages.map(({ content }) => content)).toEqual(contents);
  expect(read.messages.every(({ cut }) => cut === undefined)).toBe(true);
  expect(read.leaf).toBe("Second");
});
