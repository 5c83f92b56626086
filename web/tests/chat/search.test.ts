import { describe, expect, it } from "vitest";
import type { Book } from "../../chat/book.ts";
import { answer, ask, type Conversation, newConversation } from "../../chat/conversations.ts";
import { search } from "../../chat/search.ts";

function talk(question: string, reply: string, updated: number): Conversation {
  const asked = ask(newConversation(1), question, updated);
  const { leaf } = asked;
  return answer(asked, { id: "a", parent: leaf, role: "assistant", content: reply }, updated);
}

const book = (...all: readonly Conversation[]): Book => ({ all, current: all[0]?.id ?? "" });
const never = () => Promise.reject(new Error("it took too long"));
const titles = async (of: Book, query: string) =>
  (await search(of, query, never)).hits.map(({ title }) => title);

const PAGES = talk("What is a page?", "A block of\n  KV memory.", 1);
const RINGS = talk("What is a ring?", "A page that comes round.", 2);

describe("a search", () => {
  it("finds what was said, whatever its case and the space in it, the newest first", async () => {
    expect(await titles(book(PAGES, RINGS), "PAGE")).toEqual([
      "What is a ring?",
      "What is a page?",
    ]);
    const { hits } = await search(book(PAGES), " of kv ", never);
    expect(hits).toEqual([
      {
        id: PAGES.id,
        title: "What is a page?",
        message: "a",
        piece: { before: "A block ", match: "of KV", after: " memory." },
      },
    ]);
  });

  it("finds titles and files, too", async () => {
    const files = [{ name: "robot.txt", text: "It is called Ada." }];
    const about = ask(newConversation(1), "Who?", 3, files);
    const named = { ...PAGES, title: "Paper" };
    expect(await titles(book(about), "ada")).toEqual(["Who?"]);
    expect(await titles(book(about), "robot.TXT")).toEqual(["Who?"]);
    expect((await search(book(named), "paper", never)).hits[0]).toMatchObject({
      message: null,
      piece: { before: "", match: "Paper", after: "" },
    });
  });

  it.each(["(", "a.b", "[", "\\", "what - is", "a/b", "", "  "])(
    "takes %j as it is",
    async (query) => {
      expect(await titles(book(PAGES), query)).toEqual([]);
    },
  );

  it("cuts a piece around what was found, between characters", async () => {
    const long = talk(`${"🙂".repeat(60)}needle${"🙂".repeat(90)}`, "", 1);
    const piece = (await search(book(long), "needle", never)).hits[0]?.piece;
    expect(piece?.before).toBe(`…${"🙂".repeat(16)}`);
    expect(piece?.after).toBe(`${"🙂".repeat(40)}…`);
    const odd = talk(`x${"🙂".repeat(60)}y needle`, "", 1);
    const before = (await search(book(odd), "needle", never)).hits[0]?.piece.before ?? "";
    expect(/\p{Surrogate}/u.test(before)).toBe(false);
  });

  it("shows so many at most, and says that there are more", async () => {
    const all = Array.from({ length: 60 }, (_, i) => talk("Page", `${i}`, i));
    const found = await search(book(...all), "page", never);
    expect([found.hits.length, found.more]).toEqual([50, true]);
  });

  it("lets others have their turn, and ends where nobody wants to know", async () => {
    const long = "word ".repeat(300_000);
    let turns = 0;
    const all = book(talk("One", long, 1), talk("Two", long, 2), talk("Three", "needle", 0));
    const pause = async () => {
      turns += 1;
    };
    expect((await search(all, "needle", pause)).hits).toHaveLength(1);
    expect(turns).toBe(2);
    await expect(search(all, "needle", never)).rejects.toThrow("too long");
  });
});
