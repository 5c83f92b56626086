import { afterEach, describe, expect, it, vi } from "vitest";
import { FileStore, openOpfs } from "../../store/opfs.ts";
import { evict } from "../../store/store.ts";
import { makeOrigin, type OriginOptions } from "./origin.ts";
import { contents, sha256 } from "./support.ts";

const DATA = contents(4000);
const HASH = sha256(DATA);
const named = (name: string) => expect.objectContaining({ name });

const kinds: readonly (readonly [string, OriginOptions])[] = [
  ["in a worker", {}],
  ["in a window", { sync: false }],
  ["where files cannot be moved", { movable: false }],
  ["in WebKit", { webkit: true }],
];

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe.each(kinds)("files %s", (_, options) => {
  it("leave nothing behind where there is no room, and no handle open", async () => {
    const origin = makeOrigin(options);
    const store = await FileStore.open(origin.root);
    origin.quota = 3000;
    await expect(store.write(HASH, DATA)).rejects.toEqual(named("QuotaExceededError"));
    await store.setNote("n", DATA); // a note is kept if there is room
    expect(await store.note("n")).toBeNull();
    expect([...origin.files().keys()]).toEqual([]);
    expect(origin.open()).toBe(0);
  });

  it("have no temporary ones once they are written", async () => {
    const origin = makeOrigin(options);
    const store = await FileStore.open(origin.root);
    await store.write(HASH, DATA);
    expect([...origin.files().keys()]).toEqual([`blobs/${HASH}`]);
    expect(origin.open()).toBe(0);
  });

  it("written by two tabs at once are whole or refused, never mixed", async () => {
    const origin = makeOrigin(options);
    const tabs = [await FileStore.open(origin.root), await FileStore.open(origin.root)];
    const results = await Promise.allSettled(tabs.map((tab) => tab.write(HASH, DATA)));
    for (const result of results) {
      if (result.status === "rejected") {
        expect(result.reason).toEqual(named("NoModificationAllowedError"));
      }
    }
    const read = await tabs[0]?.read(HASH);
    if (read) expect(read).toEqual(DATA);
    expect([...origin.files().keys()].filter((path) => path.endsWith(".tmp"))).toEqual([]);
    expect(origin.open()).toBe(0);
  });
});

it("a blob gets the room of its own beginning", async () => {
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  await store.writePartial(HASH, DATA.slice(0, 3000));
  origin.quota = 4500;
  await store.write(HASH, DATA);
  expect(await store.read(HASH)).toEqual(DATA);
});

it("a store that is opened removes abandoned files, not those another tab writes", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  const blobs = await origin.root.getDirectoryHandle("blobs");
  await blobs.getFileHandle("old.tmp", { create: true });
  vi.setSystemTime(Date.now() + 3_600_000);
  await blobs.getFileHandle("new.tmp", { create: true });
  await FileStore.open(origin.root);
  expect([...origin.files().keys()]).toEqual(["blobs/new.tmp"]);
  expect(await store.list()).toEqual([]);
});

it("evicting goes on past a file that another tab has open", async () => {
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  await store.write("a", DATA);
  await store.write("b", DATA);
  const blobs = await origin.root.getDirectoryHandle("blobs");
  const access = await (await blobs.getFileHandle("a")).createSyncAccessHandle();
  expect(await evict(store, new Set())).toBe(DATA.length);
  access.close();
  expect(await store.list()).toEqual([{ sha256: "a", bytes: DATA.length }]);
});

it("clearing goes on past a file that another tab has open, and says that it stays", async () => {
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  for (const name of ["a", "b", "c"]) await store.write(name, DATA);
  await store.setNote("order", DATA);
  const blobs = await origin.root.getDirectoryHandle("blobs");
  const access = await (await blobs.getFileHandle("a")).createSyncAccessHandle();
  await expect(store.clear()).rejects.toHaveProperty("name", "NoModificationAllowedError");
  expect([...origin.files().keys()]).toEqual(["blobs/a"]);
  access.close();
  await store.clear();
  expect(await store.list()).toEqual([]);
});

it("a file that another tab replaces while it is read is read anew", async () => {
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  await store.write(HASH, DATA);
  let times = 0;
  origin.beforeRead = () => {
    if (times++ < 3) origin.replace(`blobs/${HASH}`, contents(100, times));
  };
  expect(await store.read(HASH)).toEqual(contents(100, 3));
  origin.beforeRead = () => origin.replace(`blobs/${HASH}`, DATA);
  await expect(store.read(HASH)).rejects.toEqual(named("NotReadableError"));
});

it("a note that was cut short is none", async () => {
  const origin = makeOrigin();
  const store = await FileStore.open(origin.root);
  await store.setNote("key", DATA);
  for (const file of origin.files().values()) file.data = file.data.slice(0, 1000);
  expect(await store.note("key")).toBeNull();
  expect(await store.notes()).toEqual([]);
});

describe("opening the origin's files", () => {
  const offer = (storage: object) => vi.stubGlobal("navigator", { storage });

  it("makes a folder of the store's own", async () => {
    const origin = makeOrigin();
    offer({ getDirectory: async () => origin.root });
    const store = await openOpfs();
    await store?.write(HASH, DATA);
    expect([...origin.files().keys()]).toEqual([`edgewise/blobs/${HASH}`]);
  });

  it("works where they are full: what is kept can be read", async () => {
    const origin = makeOrigin();
    offer({ getDirectory: async () => origin.root });
    await (await openOpfs())?.write(HASH, DATA);
    origin.quota = DATA.length;
    const store = await openOpfs();
    expect(await store?.read(HASH)).toEqual(DATA);
    expect([...origin.files().keys()]).toEqual([`edgewise/blobs/${HASH}`]);
  });

  it("shows in a window that cannot write what a worker keeps, and removes it", async () => {
    const origin = makeOrigin();
    offer({ getDirectory: async () => origin.root });
    await (await openOpfs())?.write(HASH, DATA);
    origin.mute = true;
    const store = await openOpfs();
    expect(await store?.list()).toEqual([{ sha256: HASH, bytes: DATA.length }]);
    expect(await store?.read(HASH)).toEqual(DATA);
    await expect(store?.write("b", DATA)).rejects.toEqual(named("NotSupportedError"));
    await store?.setNote("n", DATA); // in vain
    await store?.remove(HASH);
    expect([...origin.files().keys()]).toEqual([]);
  });

  it("comes to null where the browser forbids it", async () => {
    offer({ getDirectory: () => Promise.reject(new DOMException("private", "SecurityError")) });
    expect(await openOpfs()).toBeNull();
  });
});
