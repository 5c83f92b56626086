import "fake-indexeddb/auto";
import { describe, expect, it } from "vitest";
import { ask, newConversation } from "../../chat/conversations.ts";
import { openDatabase } from "../../chat/database.ts";

describe("kept conversations", () => {
  it("are there again when the page is opened again, the last changed first", async () => {
    const old = ask(newConversation(1), "First", 10);
    const young = ask(newConversation(2), "Second", 20);
    const database = await openDatabase("kept");
    await database.save(young);
    await database.save(old);
    const again = await openDatabase("kept");
    expect(await again.all()).toEqual([young, old]);
  });

  it("are replaced by their later state, and gone once removed", async () => {
    const database = await openDatabase("changed");
    const asked = ask(newConversation(1), "Hello", 2);
    await database.save(asked);
    await database.save({ ...asked, title: "Greetings" });
    expect((await database.all()).map(({ title }) => title)).toEqual(["Greetings"]);
    await database.remove(asked.id);
    expect(await database.all()).toEqual([]);
  });

  it("stay where a setting of theirs is none any more; what is no conversation is left out", async () => {
    const database = await openDatabase("odd");
    const one = ask(newConversation(1), "Hello", 2);
    await database.save({ ...one, settings: { temperature: 99 } });
    await database.save({ ...one, id: "other", title: null as unknown as string });
    expect(await database.all()).toEqual([one]);
  });
});
