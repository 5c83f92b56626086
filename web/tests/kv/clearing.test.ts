/** What is cleared stays cleared, whatever somebody else was writing just then. */

import "fake-indexeddb/auto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { clearPages } from "../../kv/clearing.ts";
import { PageStore } from "../../kv/page-store.ts";
import { openIndexedDb } from "../../store/indexeddb.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { Locks } from "../store/locks.ts";
import { makeOrigin } from "../store/origin.ts";
import { contents } from "../store/support.ts";

const BYTES = 400;
const OPTIONS = { producer: "webgpu/it/0123", pageBytes: BYTES, limit: 100 * BYTES };
const key = (n: number) => contents(32, 1000 + n);
const page = (n: number) => contents(BYTES, 2000 + n);

let databases = 0;

const kinds: readonly (readonly [string, () => Promise<Store>])[] = [
  ["files", () => FileStore.open(makeOrigin().root)],
  [
    "IndexedDB",
    async () => {
      const store = await openIndexedDb(`cleared-${databases++}`);
      if (!store) throw new Error("there is an IndexedDB here");
      return store;
    },
  ],
];

/** A store that does something before or after it writes a page. */
function interrupted(store: Store, when: { before?: () => unknown; after?: () => unknown }): Store {
  return new Proxy(store, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      return async (...given: unknown[]) => {
        if (name === "write") await when.before?.();
        const done: unknown = await Reflect.apply(found, target, given);
        if (name === "write") await when.after?.();
        return done;
      };
    },
  });
}

describe.each(kinds)("pages in %s that are cleared while one is written", (_, open) => {
  afterEach(() => vi.unstubAllGlobals());

  test.each(["before", "after"] as const)("%s it has its place: it is gone", async (when) => {
    vi.stubGlobal("navigator", {});
    const store = await open();
    let clears = 0;
    const clear = async () => {
      if (clears++ === 0) await clearPages(store);
    };
    const pages = await PageStore.open(interrupted(store, { [when]: clear }), OPTIONS);
    expect(await pages.put(key(1), page(1))).toBe(false);
    expect([await store.list(), pages.stored.pages]).toEqual([[], 0]);
    expect(await pages.put(key(2), page(2))).toBe(false); // it has not been told that it is of afterwards
    expect(await pages.put(key(2), page(2), await pages.epoch())).toBe(true);
    expect([(await store.list()).length, pages.stored.pages]).toEqual([1, 1]);
  });

  describe("by who waits for the write, where there are locks", () => {
    beforeEach(() => vi.stubGlobal("navigator", { locks: new Locks() }));

    test("nothing is seen afterwards, and nothing more of before is written", async () => {
      const store = await open();
      const seen: number[] = [];
      let clearing: Promise<unknown> | null = null;
      const clear = () => {
        clearing ??= clearPages(store).then(async () => seen.push((await store.list()).length));
      };
      const pages = await PageStore.open(interrupted(store, { before: clear }), OPTIONS);
      const puts = [1, 2, 3].map((n) => pages.put(key(n), page(n)));
      expect(await Promise.all(puts)).toEqual([true, false, false]); // the first was there to be cleared
      await clearing;
      expect([seen, await store.list()]).toEqual([[0], []]);
      expect(await pages.put(key(4), page(4), await pages.epoch())).toBe(true);
      expect(pages.stored.pages).toBe(1);
    });
  });

  test("by its own writer: what was put before it is done is gone, what comes after stays", async () => {
    const store = await open();
    const pages = await PageStore.open(store, OPTIONS);
    const put = pages.put(key(1), page(1));
    const clearing = pages.clear();
    const after = pages.put(key(2), page(2));
    expect([await put, await clearing, await after]).toEqual([true, undefined, false]);
    expect([await store.list(), pages.stored.pages]).toEqual([[], 0]);
    expect(await pages.put(key(2), page(2))).toBe(true);
  });

  test("takes the note of their order with it", async () => {
    const store = await open();
    const pages = await PageStore.open(store, OPTIONS);
    await pages.put(key(1), page(1));
    await clearPages(store);
    await pages.close();
    expect(await store.notes()).toEqual(["epoch"]);
  });

  test("is not heard of by who comes later", async () => {
    const store = await open();
    await (await PageStore.open(store, OPTIONS)).put(key(1), page(1));
    await clearPages(store);
    const next = await PageStore.open(store, OPTIONS);
    expect([await next.put(key(2), page(2)), next.stored.pages]).toEqual([true, 1]);
  });
});
