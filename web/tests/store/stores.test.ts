import "fake-indexeddb/auto";
import { describe, expect, it } from "vitest";
import { openIndexedDb } from "../../store/indexeddb.ts";
import { FileStore } from "../../store/opfs.ts";
import { evict, type Store } from "../../store/store.ts";
import { makeOrigin } from "./origin.ts";
import { contents, sha256 } from "./support.ts";

let databases = 0;

async function database(): Promise<Store> {
  const store = await openIndexedDb(`test-${databases++}`);
  if (!store) throw new Error("there is an IndexedDB here");
  return store;
}

const kinds: readonly (readonly [string, () => Promise<Store>])[] = [
  ["files written in a worker", () => FileStore.open(makeOrigin().root)],
  ["files written in a window", () => FileStore.open(makeOrigin({ sync: false }).root)],
  ["files that cannot be moved", () => FileStore.open(makeOrigin({ movable: false }).root)],
  ["files of WebKit", () => FileStore.open(makeOrigin({ webkit: true }).root)],
  ["IndexedDB", database],
];

const DATA = contents(5000);
const HASH = sha256(DATA);

describe.each(kinds)("a store in %s", (_, open) => {
  it("gives back what was written, and nothing for what was not", async () => {
    const store = await open();
    expect(await store.read(HASH)).toBeNull();
    expect(await store.has(HASH)).toBe(false);
    await store.write(HASH, DATA);
    expect(await store.read(HASH)).toEqual(DATA);
    expect(await store.has(HASH)).toBe(true);
  });

  it("keeps of a view what the view shows", async () => {
    const store = await open();
    await store.write(HASH, contents(9000).subarray(100, 300));
    expect(await store.read(HASH)).toEqual(contents(9000).slice(100, 300));
    expect(await store.list()).toEqual([{ sha256: HASH, bytes: 200 }]);
  });

  it("writes over what there was, also where that was longer", async () => {
    const store = await open();
    await store.write(HASH, DATA);
    await store.write(HASH, contents(10, 2));
    expect(await store.read(HASH)).toEqual(contents(10, 2));
  });

  it("forgets what had arrived once it has all of a blob", async () => {
    const store = await open();
    await store.writePartial(HASH, DATA.slice(0, 700));
    expect(await store.readPartial(HASH)).toEqual(DATA.slice(0, 700));
    expect(await store.listPartial()).toEqual([{ sha256: HASH, bytes: 700 }]);
    expect(await store.list()).toEqual([]);
    await store.write(HASH, DATA);
    expect(await store.readPartial(HASH)).toBeNull();
    expect(await store.listPartial()).toEqual([]);
  });

  it("removes blobs, begun ones and ones it does not have", async () => {
    const store = await open();
    await store.write(HASH, DATA);
    await store.remove(HASH);
    await store.writePartial(HASH, DATA);
    await store.remove(HASH);
    await store.remove(HASH);
    expect([await store.read(HASH), await store.readPartial(HASH)]).toEqual([null, null]);
    expect([...(await store.list()), ...(await store.listPartial())]).toEqual([]);
  });

  it("keeps notes under any name", async () => {
    const store = await open();
    const keys = [
      "manifest https://a.b/c?d=%20_-",
      "Case",
      "case",
      "ö/…",
      `long ${"x".repeat(999)}`,
    ];
    for (const key of keys) await store.setNote(key, new TextEncoder().encode(`of ${key}`));
    for (const key of keys) {
      expect(new TextDecoder().decode((await store.note(key)) ?? undefined)).toBe(`of ${key}`);
    }
    expect([...(await store.notes())].sort()).toEqual([...keys].sort());
    await store.setNote("case", new Uint8Array());
    expect(await store.note("case")).toEqual(new Uint8Array());
    await store.removeNote("Case");
    expect(await store.note("Case")).toBeNull();
    expect(await store.notes()).toHaveLength(keys.length - 1);
  });

  it("evicts what no known manifest names, begun downloads too", async () => {
    const store = await open();
    const [a, b, c] = [1, 2, 3].map((seed) => contents(100 * seed, seed));
    if (!a || !b || !c) throw new Error("three contents");
    await store.write(sha256(a), a);
    await store.write(sha256(b), b);
    await store.writePartial(sha256(c), c);
    expect(await evict(store, new Set([sha256(a)]))).toBe(500);
    expect(await store.list()).toEqual([{ sha256: sha256(a), bytes: 100 }]);
    expect(await store.listPartial()).toEqual([]);
  });

  it("forgets everything when it is cleared", async () => {
    const store = await open();
    await store.write(HASH, DATA);
    await store.writePartial(sha256(contents(1)), contents(1));
    await store.setNote("n", DATA);
    await store.clear();
    expect(await store.list()).toEqual([]);
    expect(await store.listPartial()).toEqual([]);
    expect(await store.notes()).toEqual([]);
  });
});
