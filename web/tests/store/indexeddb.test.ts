import "fake-indexeddb/auto";
import { afterEach, expect, it, vi } from "vitest";
import { openIndexedDb } from "../../store/indexeddb.ts";
import { contents, sha256 } from "./support.ts";

const DATA = contents(4000);
const HASH = sha256(DATA);

afterEach(() => vi.restoreAllMocks());

async function open(name: string) {
  const store = await openIndexedDb(name);
  if (!store) throw new Error("there is an IndexedDB here");
  return store;
}

/** Transactions end as they do in a browser that is out of room: aborted, with the reason. */
function fillUp(): void {
  const commit = IDBObjectStore.prototype.put;
  vi.spyOn(IDBObjectStore.prototype, "put").mockImplementation(function (
    this: IDBObjectStore,
    ...args
  ) {
    const { transaction } = this;
    const request = commit.apply(this, args);
    const full = new DOMException("no room", "QuotaExceededError");
    Object.defineProperty(transaction, "error", { value: full, writable: false });
    request.onsuccess = () => transaction.abort();
    return request;
  });
}

it("without room says so, and what there was stays", async () => {
  const store = await open("full");
  await store.writePartial(HASH, DATA.slice(0, 100));
  fillUp();
  await expect(store.write(HASH, DATA)).rejects.toMatchObject({ name: "QuotaExceededError" });
  vi.restoreAllMocks();
  expect(await store.read(HASH)).toBeNull();
  expect(await store.list()).toEqual([]);
  expect(await store.readPartial(HASH)).toEqual(DATA.slice(0, 100));
});

it("without room keeps no note, which is no error", async () => {
  const store = await open("full-notes");
  fillUp();
  await store.setNote("n", DATA);
  vi.restoreAllMocks();
  expect(await store.note("n")).toBeNull();
});

it("makes its tables anew where an earlier version made others, even one that is open", async () => {
  const earlier = indexedDB.open("upgraded", 1);
  earlier.onupgradeneeded = () => earlier.result.createObjectStore("blobs").put("text", HASH);
  await new Promise((resolve) => {
    earlier.onsuccess = resolve;
  });
  earlier.result.onversionchange = () => earlier.result.close();
  const store = await open("upgraded");
  expect(await store.has(HASH)).toBe(false);
  await store.write(HASH, DATA);
  expect(await store.read(HASH)).toEqual(DATA);
});

it("is null where it cannot be opened", async () => {
  const later = indexedDB.open("later", 99);
  await new Promise((resolve) => {
    later.onsuccess = resolve;
  });
  later.result.close();
  expect(await openIndexedDb("later")).toBeNull();
});
