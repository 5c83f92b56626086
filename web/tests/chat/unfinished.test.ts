import "fake-indexeddb/auto";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { currentOf } from "../../chat/book.ts";
import { MAX_TOKENS } from "../../chat/bounds.ts";
import { shownOf } from "../../chat/branches.ts";
import { type Chat, createChat } from "../../chat/chat-state.ts";
import { type Database, openDatabase } from "../../chat/database.ts";
import { speaker } from "./speaker.ts";

let databases = 0;
let database: Database;
let clock: number;
let chat: Chat;

/** The chat of a page that opens. */
function opened(): Chat {
  const nothing = () => undefined;
  const now = () => clock;
  return createChat({
    database: Promise.resolve(database),
    onFrame: nothing,
    onState: nothing,
    now,
  });
}

const turn = () => new Promise<void>((resolve) => setTimeout(resolve));

/** Locks of which these are held by some page, and which are given to whoever asks. */
function lockManager(held: readonly string[]) {
  return {
    request: async (_name: string, _options: object, act: () => Promise<void>) => act(),
    query: async () => ({ held: held.map((name) => ({ name })) }),
  };
}

beforeEach(async () => {
  clock = 1000;
  databases += 1;
  database = await openDatabase(`unfinished-${databases}`);
  chat = opened();
});

describe("an answer that closing the page broke off", () => {
  const spoken = [
    ["One", [5]],
    [", two", [6, 7]],
  ] as const;

  /** A page that was closed at its second word, and the state of the next one. */
  async function closed(): Promise<Chat> {
    const model = speaker();
    void chat.send(model.answers, "Count");
    for (const [text, tokens] of spoken) {
      model.speeches[0]?.say(text, tokens);
      await turn();
    }
    chat.keepWriting();
    await database.all();
    return opened();
  }

  /** The page's locks are gone, as the browser takes care of. */
  const unlocked = () => vi.stubGlobal("navigator", { locks: lockManager([]) });

  afterEach(() => vi.unstubAllGlobals());

  it("is shown by the next page, and goes on from its tokens with what is left of its length", async () => {
    unlocked();
    const next = await closed();
    await next.restore();
    const at = () => shownOf(currentOf(next.state().book)).map(({ content }) => content);
    expect(at()).toEqual(["Count", "One, two"]);
    const model = speaker();
    const done = next.resume(model.answers);
    await turn();
    const [speech] = model.speeches;
    expect(speech?.options.begun).toEqual([5, 6, 7]);
    expect(speech?.options.maxTokens).toBe(MAX_TOKENS - 3);
    speech?.say("One, two, three");
    speech?.end("stop", { tokenIds: [5, 6, 7, 8] });
    await done;
    expect(at()).toEqual(["Count", "One, two, three"]);
    await next.resume(model.answers);
    expect(model.speeches).toHaveLength(1);
  });

  it("waits for a person where it came no further the last time", async () => {
    unlocked();
    const next = await closed();
    await next.restore();
    const model = speaker();
    void next.resume(model.answers);
    await turn();
    expect(model.speeches).toHaveLength(1);
    await database.all();
    const third = opened();
    await third.restore();
    const again = speaker();
    await third.resume(again.answers);
    expect(again.speeches).toHaveLength(0);
    const { id } = currentOf(next.state().book);
    third.pick(id);
    void third.goOn(again.answers);
    expect(again.speeches).toHaveLength(1);
  });

  it.each([
    ["another page is writing it", (id: string) => lockManager([`edgewise answer ${id}`]), 0],
    ["nobody can say whether another page is", () => undefined, 0],
    ["it is two days old", () => lockManager([]), 2 * 24 * 60 * 60 * 1000],
  ])("stays as it is where %s", async (_, locks, later) => {
    unlocked();
    const next = await closed();
    vi.stubGlobal("navigator", { locks: locks(currentOf(chat.state().book).id) });
    clock += later;
    await next.restore();
    const model = speaker();
    await next.resume(model.answers);
    expect(model.speeches).toHaveLength(0);
    expect(currentOf(next.state().book).messages).toEqual([]);
  });

  it("does not interrupt who has begun something else", async () => {
    unlocked();
    const next = await closed();
    const model = speaker();
    void next.send(model.answers, "Something else");
    await next.restore();
    await next.resume(model.answers);
    expect(model.speeches).toHaveLength(1);
    expect(shownOf(currentOf(next.state().book))[0]?.content).toBe("Something else");
  });
});
