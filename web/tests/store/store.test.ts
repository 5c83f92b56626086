import "fake-indexeddb/auto";
import { afterEach, describe, expect, it, vi } from "vitest";
import { MemoryStore } from "../../store/memory.ts";
import { askToKeep } from "../../store/persistence.ts";
import { openStore, usage } from "../../store/store.ts";
import { makeOrigin } from "./origin.ts";

const offer = (storage: object) => vi.stubGlobal("navigator", { storage });
afterEach(() => vi.unstubAllGlobals());

describe("the best store", () => {
  it("is the origin's files", async () => {
    offer({ getDirectory: async () => makeOrigin().root });
    expect((await openStore()).kind).toBe("opfs");
  });

  it("is IndexedDB where there are none", async () => {
    offer({});
    expect((await openStore()).kind).toBe("indexeddb");
  });

  it("keeps nothing where nothing can be kept", async () => {
    offer({});
    vi.stubGlobal("indexedDB", undefined);
    expect((await openStore()).kind).toBe("memory");
  });
});

describe("a browser asked to keep what there is", () => {
  it("is not waited for", () => {
    const persist = vi.fn(() => new Promise<boolean>(() => undefined));
    offer({ persist });
    expect(askToKeep()).toBeUndefined();
    expect(persist).toHaveBeenCalledOnce();
  });

  it.each([
    ["refuse", { persist: () => Promise.reject(new TypeError("no")) }],
    ["not know the question, as in a worker", {}],
  ])("may %s", async (_, storage) => {
    offer(storage);
    askToKeep();
    await new Promise((resolve) => setTimeout(resolve)); // a rejection nobody handles fails the test
  });
});

it("usage is what the browser tells, or nothing", async () => {
  offer({ estimate: async () => ({ usage: 5, quota: 100 }) });
  expect(await usage()).toEqual({ usage: 5, quota: 100 });
  offer({ estimate: () => Promise.reject(new TypeError("no")) });
  expect(await usage()).toBeNull();
  offer({});
  expect(await usage()).toBeNull();
});

it("a store in memory keeps notes only, and copies of them", async () => {
  const store = new MemoryStore();
  const data = new Uint8Array([1, 2]);
  await store.setNote("n", data);
  data[0] = 9;
  expect(await store.note("n")).toEqual(new Uint8Array([1, 2]));
  expect(await store.notes()).toEqual(["n"]);
  await store.clear();
  expect(await store.note("n")).toBeNull();
});
