/** Pages at rest are as they were put there or not there, whatever fails and whoever else writes. */

import "fake-indexeddb/auto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { PageStore } from "../../kv/page-store.ts";
import { openIndexedDb } from "../../store/indexeddb.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { Random } from "../engine/random.ts";
import { Locks } from "../store/locks.ts";
import { makeOrigin, type OriginOptions } from "../store/origin.ts";
import { contents } from "../store/support.ts";

const BYTES = 400;
const FILE = BYTES + 112;
const OPTIONS = { producer: "webgpu/it/0123", pageBytes: BYTES, limit: 10 * FILE };

const key = (n: number) => contents(32, 1000 + n);
const page = (n: number) => contents(BYTES, 2000 + n);

let databases = 0;

async function database(): Promise<Store> {
  const store = await openIndexedDb(`pages-${databases++}`);
  if (!store) throw new Error("there is an IndexedDB here");
  return store;
}

const files = (options?: OriginOptions) => () => FileStore.open(makeOrigin(options).root);

const kinds: readonly (readonly [string, () => Promise<Store>])[] = [
  ["files", files()],
  ["files that cannot be moved", files({ movable: false })],
  ["files of WebKit", files({ webkit: true })],
  ["IndexedDB", database],
];

/** Which of so many pages are there, each as it was put. */
async function there(pages: PageStore, count: number): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < count; n++) {
    const data = await pages.get(key(n));
    if (data) expect(data).toEqual(page(n));
    if (data) found.push(n);
  }
  return found;
}

/** Its own files add up. */
async function sound(store: Store, pages: PageStore): Promise<void> {
  const listed = await store.list();
  const bytes = listed.reduce((sum, one) => sum + one.bytes, 0);
  expect(pages.stored).toMatchObject({ pages: listed.length, bytes });
  expect(bytes).toBeLessThanOrEqual(pages.stored.limit);
}

describe.each(kinds)("pages in %s", (_, open) => {
  test("are found by whoever opens them next, and by no other producer", async () => {
    const store = await open();
    const pages = await PageStore.open(store, OPTIONS);
    expect([await pages.has(key(1)), await pages.get(key(1))]).toEqual([false, null]);
    expect(await pages.put(key(1), page(1))).toBe(true);
    await pages.close();
    const next = await PageStore.open(store, OPTIONS);
    expect([await next.has(key(1)), await next.get(key(1))]).toEqual([true, page(1)]);
    const other = await PageStore.open(store, { ...OPTIONS, producer: "webgpu/it/4567" });
    expect([await other.has(key(1)), await other.get(key(1))]).toEqual([false, null]);
    expect(other.stored).toMatchObject({ pages: 1, bytes: FILE });
    const wider = await PageStore.open(store, { ...OPTIONS, pageBytes: BYTES + 4 });
    expect(await wider.get(key(1))).toBeNull();
    expect([wider.stored.damaged, (await store.list()).length]).toEqual([1, 0]);
  });

  test("go when they were not used for longest, of all producers alike", async () => {
    const store = await open();
    const first = await PageStore.open(store, { ...OPTIONS, producer: "older" });
    for (let n = 0; n < 4; n++) await first.put(key(n), page(n));
    await first.close();
    const pages = await PageStore.open(store, OPTIONS);
    for (let n = 0; n < 8; n++) await pages.put(key(n), page(n));
    await pages.get(key(0));
    for (let n = 8; n < 10; n++) await pages.put(key(n), page(n));
    await sound(store, pages);
    expect(await there(pages, 10)).toHaveLength(10);
    for (let n = 10; n < 12; n++) await pages.put(key(n), page(n));
    expect(await there(pages, 12)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    await pages.setLimit(3 * FILE);
    expect(await there(pages, 12)).toEqual([9, 10, 11]);
    await sound(store, pages);
    expect(await pages.put(key(0), contents(4 * FILE))).toBe(false);
    await pages.clear();
    expect([await store.list(), pages.stored.bytes]).toEqual([[], 0]);
  });

  test("keep their order over a reload", async () => {
    const store = await open();
    const pages = await PageStore.open(store, OPTIONS);
    for (let n = 0; n < 10; n++) await pages.put(key(n), page(n));
    for (const n of [3, 0]) await pages.get(key(n));
    await pages.close();
    expect([await pages.get(key(0)), await pages.put(key(0), page(0))]).toEqual([null, false]);
    const next = await PageStore.open(store, { ...OPTIONS, limit: 2 * FILE });
    await next.setLimit(2 * FILE);
    expect(await there(next, 10)).toEqual([0, 3]);
  });

  test("are as they were put or missing, whichever byte of a file changes", async () => {
    const store = await open();
    const pages = await PageStore.open(store, OPTIONS);
    const random = new Random(5);
    for (let round = 0; round < 60; round++) {
      await pages.put(key(1), page(1));
      const [listed] = await store.list();
      const name = listed?.sha256 ?? "";
      const file = (await store.read(name)) ?? new Uint8Array();
      const at = round < 40 ? random.whole(0, 111) : random.whole(112, file.length - 1);
      file[at] = (file[at] ?? 0) ^ (1 << random.whole(0, 7));
      await store.write(name, random.chance(0.8) ? file : file.slice(0, at));
      expect(await pages.get(key(1))).toBeNull();
      expect(await store.list()).toEqual([]);
    }
    expect(pages.stored).toMatchObject({ damaged: 60, pages: 0, bytes: 0 });
  });
});

describe("what goes wrong", () => {
  /** What a store is asked for, of which the nth fails. */
  function failing(
    store: Store,
    nth: number,
  ): { readonly store: Store; readonly asked: () => number } {
    let asked = 0;
    const handler: ProxyHandler<Store> = {
      get(target, name) {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== "function") return found;
        return async (...given: unknown[]) => {
          asked += 1;
          if (asked === nth) throw new DOMException("It did not work.", "UnknownError");
          return Reflect.apply(found, target, given);
        };
      },
    };
    return { store: new Proxy(store, handler), asked: () => asked };
  }

  async function life(store: Store): Promise<PageStore> {
    const pages = await PageStore.open(store, { ...OPTIONS, limit: 4 * FILE });
    for (let n = 0; n < 6; n++) {
      await pages.put(key(n), page(n));
      await there(pages, 6);
    }
    await pages.setLimit(2 * FILE);
    await pages.close();
    return pages;
  }

  test("the nth thing that the store is asked for, for every n: nothing else is wrong", async () => {
    const counted = failing(await files()(), 0);
    await life(counted.store);
    expect(counted.asked()).toBeGreaterThan(40);
    for (let nth = 1; nth <= counted.asked(); nth++) {
      const store = await files()();
      await life(failing(store, nth).store);
      const pages = await PageStore.open(store, OPTIONS);
      expect(await pages.put(key(7), page(7))).toBe(true);
      expect(await there(pages, 8)).toContain(7);
      await sound(store, pages);
    }
  });

  test("a full origin has the room of pages that were not used, or does without new ones", async () => {
    const origin = makeOrigin();
    const store = await FileStore.open(origin.root);
    const pages = await PageStore.open(store, OPTIONS);
    for (let n = 0; n < 4; n++) await pages.put(key(n), page(n));
    origin.quota = 4 * FILE + 200;
    expect(await pages.put(key(4), page(4))).toBe(true);
    expect(await there(pages, 5)).toEqual([2, 3, 4]);
    origin.quota = 100;
    expect(await pages.put(key(5), page(5))).toBe(false);
    expect(pages.stored.dropped).toBe(1);
    await sound(store, pages);
  });

  test("a browser that took files away is believed", async () => {
    const store = await files()();
    const pages = await PageStore.open(store, OPTIONS);
    for (let n = 0; n < 3; n++) await pages.put(key(n), page(n));
    await store.clear();
    expect(await there(pages, 3)).toEqual([]);
    await sound(store, pages);
  });
});

describe("two tabs", () => {
  beforeEach(() => vi.stubGlobal("navigator", { locks: new Locks() }));
  afterEach(() => vi.unstubAllGlobals());

  test("one writes, both read, and the other writes when the first has gone", async () => {
    const store = await files()();
    const [one, other] = [
      await PageStore.open(store, OPTIONS),
      await PageStore.open(store, OPTIONS),
    ];
    expect([await one.writable(), await other.writable()]).toEqual([true, false]);
    expect([await one.put(key(1), page(1)), await other.put(key(2), page(2))]).toEqual([
      true,
      false,
    ]);
    expect(await other.get(key(1))).toEqual(page(1));
    await one.close();
    expect(await other.put(key(2), page(2))).toBe(true);
    await sound(store, other);
    expect(await there(other, 3)).toEqual([1, 2]);
  });

  test("who comes to write removes what the one before had begun when it was ended", async () => {
    const origin = makeOrigin();
    const store = await FileStore.open(origin.root);
    const pages = await PageStore.open(store, OPTIONS);
    const blobs = await origin.root.getDirectoryHandle("blobs");
    await blobs.getFileHandle("begun.tmp", { create: true });
    const begun = () => [...origin.files().keys()].filter((name) => name.endsWith(".tmp"));
    await pages.get(key(1));
    expect(begun()).toEqual(["blobs/begun.tmp"]); // another may be writing it
    expect(await pages.writable()).toBe(true);
    expect(begun()).toEqual([]);
  });

  test("without locks both write, and what is found is right all the same", async () => {
    vi.stubGlobal("navigator", {});
    const store = await files()();
    const tabs = await Promise.all([0, 1].map(() => PageStore.open(store, OPTIONS)));
    const random = new Random(9);
    await Promise.all(
      tabs.map(async (pages) => {
        for (let round = 0; round < 80; round++) {
          const n = random.whole(0, 20);
          if (random.chance(0.5)) await pages.put(key(n), page(n));
          else if (random.chance(0.95))
            expect([null, page(n)]).toContainEqual(await pages.get(key(n)));
          else await pages.clear();
        }
      }),
    );
    const after = await PageStore.open(store, OPTIONS);
    await after.setLimit(OPTIONS.limit);
    await sound(store, after);
    await there(after, 21);
  });
});

test("300 random operations: what is there is right, and adds up after each", async () => {
  const random = new Random(300);
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  let pages = await PageStore.open(store, OPTIONS);
  for (let round = 0; round < 300; round++) {
    const n = random.whole(0, 30);
    const operations: readonly (() => Promise<unknown>)[] = [
      () => pages.put(key(n), page(n)),
      () => pages.put(key(n), page(n)),
      () => there(pages, 31),
      () => pages.setLimit(random.whole(1, 20) * FILE),
      async () => {
        origin.quota = random.chance(0.5) ? random.whole(0, 12) * FILE : Number.POSITIVE_INFINITY;
      },
      async () => {
        if (random.chance(0.5)) await pages.close();
        pages = await PageStore.open(store, { ...OPTIONS, limit: 20 * FILE });
      },
      async () => {
        if (random.chance(0.2)) await pages.clear();
      },
    ];
    await random.pick(operations)();
    await sound(store, pages);
  }
});
