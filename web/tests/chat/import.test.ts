import { describe, expect, it } from "vitest";
import { MOST } from "../../chat/bounds.ts";
import { answer, ask, type Conversation, newConversation } from "../../chat/conversations.ts";
import { exported } from "../../chat/export.ts";
import { imported } from "../../chat/import.ts";

const NOW = 1_000;
const CUT = { tokenizer: "t", tokens: [1] };

function talk(question: string, updated = 2): Conversation {
  const asked = ask(newConversation(1), question, updated);
  const { leaf } = asked;
  return answer(asked, { id: "a", parent: leaf, role: "assistant", content: "Hi" }, updated);
}

const file = (value: unknown) =>
  new Blob([typeof value === "string" ? value : JSON.stringify(value)]);
const saved = (...all: Conversation[]) => new Blob([exported(all, "all")]);

describe("a file of conversations", () => {
  it("has what was exported", async () => {
    const all = [talk("Hello"), { ...talk("And you?"), settings: { temperature: 0.5 } }];
    const read = await imported(saved(...all), [], NOW);
    expect(read).toEqual({ conversations: all, here: 0 });
  });

  it("adds nothing that is here, and replaces nothing", async () => {
    const one = talk("Hello");
    expect(await imported(saved(one), [one], NOW)).toEqual({ conversations: [], here: 1 });
    const longer = ask(one, "And now?", 3);
    expect(await imported(saved(one), [longer], NOW)).toEqual({ conversations: [], here: 1 });
    const { conversations } = await imported(saved(longer), [one], NOW);
    expect(conversations).toEqual([{ ...longer, id: expect.not.stringContaining(one.id) }]);
    const twice = await imported(saved(one, one), [], NOW);
    expect(twice).toEqual({ conversations: [one], here: 1 });
  });

  it("is not believed to be of the future, nor where an answer was cut off", async () => {
    const { messages, ...one } = talk("Hello", 5_000);
    const cut = messages.map((message) => ({ ...message, cut: CUT }));
    const read = await imported(
      file({ version: 2, conversations: [{ ...one, messages: cut }] }),
      [],
      NOW,
    );
    expect(read.conversations).toEqual([{ ...one, messages, updated: NOW }]);
  });

  it("has conversations in which something was said", async () => {
    const read = await imported(saved(newConversation(1)), [], NOW);
    expect(read).toEqual({ conversations: [], here: 0 });
  });

  it.each([
    ["no text", new Blob([new Uint8Array([0xff, 0xfe, 0x00])]), "no text in UTF-8"],
    ["no JSON", file("{"), "The file is no JSON"],
    ["another thing", file([1]), "no list of conversations: it is [1]"],
    ["another version", file({ version: 9, conversations: [] }), "version is 9; 1 and 2 are known"],
    [
      "too many",
      file({ version: 2, conversations: Array(MOST.conversations + 1).fill(0) }),
      "5001 conversations; 5000 are the most",
    ],
    ["too much in it", file(`[${"[],".repeat(2_000_001)}0]`), "lists, objects and commas"],
  ])("is refused where it is %s", async (_, given, words) => {
    await expect(imported(given, [], NOW)).rejects.toThrow(words);
  });

  it("is refused as a whole for one value, which is named", async () => {
    const wrong = { ...talk("Two"), title: "Odd", settings: { temperature: "hot" } };
    const given = file({ version: 2, conversations: [talk("One"), wrong] });
    await expect(imported(given, [], NOW)).rejects.toThrow(
      'Conversation 2 of 2 ("Odd"): settings.temperature is "hot", not a number from 0 to 5.',
    );
    const tools = { ...talk("Three"), settings: { tools: [{ name: "a b" }] } };
    await expect(imported(file({ version: 2, conversations: [tools] }), [], NOW)).rejects.toThrow(
      /settings\.tools: .*"a b"/,
    );
  });
});
