import { describe, expect, it } from "vitest";
import {
  begin,
  change,
  currentOf,
  listed,
  merge,
  openBook,
  pick,
  remove,
} from "../../chat/book.ts";
import { ask, type Conversation, newConversation } from "../../chat/conversations.ts";

const said = (text: string, now: number): Conversation => ask(newConversation(now), text, now);
const titles = (all: readonly Conversation[]) => all.map(({ title }) => title);

describe("the conversations of a page", () => {
  const old = said("Old", 1);
  const young = said("Young", 2);

  it("begin with a new one, which is not listed until something is said in it", () => {
    const book = openBook([old, young], 3);
    expect(currentOf(book).messages).toEqual([]);
    expect(titles(listed(book))).toEqual(["Young", "Old"]);
    const asked = change(book, book.current, (one) => ask(one, "Now", 4));
    expect(titles(listed(asked))).toEqual(["Now", "Young", "Old"]);
  });

  it("are joined by those that were kept, each once and as it was last", () => {
    const older = { ...young, title: "Older", updated: 0 };
    const newer = { ...young, title: "Newer", updated: 9 };
    expect(titles(listed(merge(openBook([young]), [old, older])))).toEqual(["Young", "Old"]);
    expect(titles(listed(merge(openBook([young]), [old, newer])))).toEqual(["Newer", "Old"]);
  });

  it("show the one that is picked, and no other where there is none such", () => {
    const book = pick(openBook([old, young]), old.id);
    expect(currentOf(book)).toBe(old);
    expect(pick(book, "nobody's")).toBe(book);
  });

  it("do not pile up where nothing is said", () => {
    const book = begin(begin(begin(openBook([old]))));
    expect(book.all).toHaveLength(2);
  });

  it("go on with a new one when the one shown is removed", () => {
    const book = remove(pick(openBook([old, young]), old.id), old.id);
    expect(titles(listed(book))).toEqual(["Young"]);
    expect(currentOf(book).messages).toEqual([]);
    const other = remove(pick(openBook([old, young]), old.id), young.id);
    expect(currentOf(other)).toBe(old);
  });

  it("do not come back by a change after they were removed", () => {
    const book = remove(openBook([old]), old.id);
    expect(change(book, old.id, (one) => ask(one, "More"))).toBe(book);
  });
});
