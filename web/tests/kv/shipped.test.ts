/** Pages of a bundle are those that it was made with or not there, whatever the host sends. */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Host, startHost } from "../store/host.ts";
import { sha256 } from "../store/support.ts";
import {
  type Changes,
  emptyStore,
  FILE_BYTES,
  open,
  pathOf,
  publish,
  state,
  wanted,
} from "./packed-host.ts";

const PAGES = 6;
const ALL = Array.from({ length: PAGES }, (_, n) => wanted(n));
const STATES = ALL.map((_, n) => state(n));
const coded = (code: string) => expect.objectContaining({ name: "EdgewiseError", code });

let host: Host;

beforeAll(async () => {
  host = await startHost();
});
afterAll(() => host.close());
beforeEach(async () => {
  host.files.clear();
  host.misbehave = () => ({});
  await publish(host, PAGES);
  host.asked.length = 0;
});

const asked = () => host.asked.map(({ path }) => path).filter((path) => path.endsWith(".kv"));

async function shipped(options: Parameters<typeof open>[1] = {}) {
  const opened = await open(host, options);
  if (!opened.shipped) throw new Error("it ships pages");
  return { ...opened, shipped: opened.shipped };
}

describe("pages of a bundle", () => {
  test("are those that it was made with", async () => {
    const { shipped: pages } = await shipped();
    expect(asked()).toEqual([]);
    expect(await pages.bring(ALL, null)).toEqual(STATES);
    expect(asked().sort()).toEqual(ALL.map((_, n) => pathOf(n)).sort());
    expect(pages.damaged).toBe(0);
  });

  test("come as far as there are any", async () => {
    const { shipped: pages } = await shipped();
    expect(await pages.bring([wanted(0), wanted(99), wanted(1)], null)).toEqual([state(0)]);
    expect(await pages.bring([wanted(99), wanted(1)], null)).toEqual([]);
    expect(asked()).toEqual([pathOf(0)]);
  });

  test("are kept with the bundle: the second time nobody is asked", async () => {
    const store = await emptyStore();
    const first = await shipped({ store });
    await first.shipped.bring(ALL, null);
    host.misbehave = () => ({ cutAfter: 0 });
    host.asked.length = 0;
    const { shipped: pages } = await shipped({ store, network: 0 });
    expect(await pages.bring(ALL, null)).toEqual(STATES);
    expect(asked()).toEqual([]);
  });

  test("are named by who computed them, and told apart by what they are", async () => {
    const one = await shipped();
    expect(one.shipped.computedBy).toBe("webgpu/it/0123/somebody's");
    const hashes = ALL.map((_, n) => sha256(host.files.get(pathOf(n)) ?? new Uint8Array()));
    const digest = sha256(new TextEncoder().encode(hashes.sort().join("\n")));
    expect(one.shipped.digest).toBe(digest);
  });
});

describe("nothing is fetched", () => {
  test("where computing is quicker", async () => {
    const { shipped: pages } = await shipped({ network: 0.001 });
    expect(await pages.bring(ALL, 1e6)).toEqual([]);
    expect(asked()).toEqual([]);
  });

  test("of what the store lacks, where only that is slow", async () => {
    const store = await emptyStore();
    const first = await shipped({ store });
    await first.shipped.bring(ALL.slice(0, 2), null);
    host.asked.length = 0;
    const { shipped: pages } = await shipped({ store, network: 0 });
    expect(await pages.bring(ALL.slice(0, 2), null)).toEqual(STATES.slice(0, 2));
    expect(await pages.bring(ALL.slice(2), null)).toEqual([]);
    expect(asked()).toEqual([]);
  });

  test("once there is no use for it any more", async () => {
    const { shipped: pages, end } = await shipped();
    end();
    expect(await pages.bring(ALL, null)).toEqual([]);
    expect(asked()).toEqual([]);
  });
});

describe("a host that", () => {
  test("is too slow is given up, and what has come is used", async () => {
    host.misbehave = (path) => (path === pathOf(3) ? { slow: 10_000 } : {});
    const { shipped: pages, files, limits } = await shipped();
    const coming = pages.bring(ALL, 200);
    const kept = async (n: number) => (await files.kept(pathOf(n))) && pages.has(wanted(n).key);
    await expect.poll(async () => Promise.all([0, 1, 2, 4, 5].map(kept))).not.toContain(false);
    expect(limits.map(({ ms }) => ms)).toEqual([480]);
    limits[0]?.end();
    expect(await coming).toEqual(STATES.slice(0, 3));
    expect(pages.damaged).toBe(0);
  });

  test("is slow is waited for where pages are wanted always", async () => {
    host.misbehave = (path) => (path === pathOf(3) ? { slow: 100 } : {});
    const { shipped: pages } = await shipped({ always: true, network: 0 });
    expect(await pages.bring(ALL, 1e9)).toEqual(STATES);
  });

  test.each([
    ["lacks a page", () => host.files.delete(pathOf(2))],
    ["breaks off", () => breaksAt(2)],
  ])("%s is not asked for others, for a while", async (_, fail) => {
    fail();
    const { shipped: pages, pass } = await shipped();
    expect(await pages.bring(ALL.slice(0, 3), null)).toEqual(STATES.slice(0, 2));
    await publish(host, PAGES);
    host.misbehave = () => ({});
    expect(await pages.bring(ALL, null)).toEqual(STATES.slice(0, 2)); // they are in the store
    pass(60_001);
    expect(await pages.bring(ALL, null)).toEqual(STATES);
    expect(pages.damaged).toBe(0);
  });

  test("sends other bytes than the bundle says is not believed, and not asked again", async () => {
    host.misbehave = (path) => (path === pathOf(2) ? { flip: 300 } : {});
    const { shipped: pages } = await shipped();
    expect(await pages.bring(ALL, null)).toEqual(STATES.slice(0, 2));
    expect(pages.damaged).toBe(1);
    host.misbehave = () => ({});
    expect(await pages.bring(ALL, null)).toEqual(STATES.slice(0, 2));
    expect(await pages.bring(ALL.slice(3), null)).toEqual(STATES.slice(3));
  });
});

describe("a page is not used", () => {
  const forged: [string, Changes][] = [
    ["of other tokens", { tokens: (n) => (n === 2 ? wanted(1).tokens : wanted(n).tokens) }],
    ["of another producer than the index says", { producer: "webgpu/it/4567/somebody's" }],
  ];
  test.each(forged)("%s, though bundle.json has its hash", async (_, changes) => {
    await publish(host, PAGES, changes);
    const { shipped: pages } = await shipped();
    expect(await pages.bring(ALL, null)).toEqual(changes.tokens ? STATES.slice(0, 2) : []);
    expect(pages.damaged).toBe(changes.tokens ? 1 : PAGES);
  });

  test("in the place of another", async () => {
    const other = host.files.get(pathOf(1)) ?? new Uint8Array();
    host.files.set(pathOf(0), other);
    const { shipped: pages } = await shipped();
    expect(await pages.bring(ALL, null)).toEqual([]);
    expect(pages.damaged).toBe(1);
  });
});

describe("an index", () => {
  test("is not there for a program of another KV layout", async () => {
    expect((await open(host, { pageBytes: 404 })).shipped).toBeNull();
  });

  test.each([
    [{ version: 9 }, "bundle.version"],
    [{ file_bytes: FILE_BYTES + 1 }, "bundle.size"],
  ])("that says %o is refused by name", async (index, code) => {
    await publish(host, PAGES, { index });
    await expect(open(host, {})).rejects.toEqual(coded(code));
  });

  test.each([
    [[null, 40], {}],
    [[64], {}],
    [[64], { version: 2, windows: [32] }],
    [[null], { version: 2, windows: [64] }],
  ])("is not there for a model of the windows %j where it says %o", async (windows, index) => {
    await publish(host, PAGES, { index });
    expect((await open(host, { windows })).shipped).toBeNull();
  });

  test("has of a window the pages that its end sees", async () => {
    await publish(host, PAGES, { index: { version: 2, windows: [64] } });
    const { shipped: pages } = await open(host, { windows: [64] });
    // Of 96 tokens the one that follows sees those from 33 on.
    expect(ALL.map(({ key }) => pages?.has(key))).toEqual([false, false, true, true, true, true]);
    expect(await pages?.bring(ALL.slice(2), null)).toEqual(STATES.slice(2));
  });

  test("that came otherwise than the bundle says is refused", async () => {
    host.misbehave = (path) => (path.endsWith("index.json") ? { flip: 7 } : {});
    await expect(open(host, {})).rejects.toEqual(coded("bundle.checksum"));
  });

  test("that the host does not have is missed by its own code", async () => {
    host.misbehave = (path) => (path.endsWith("index.json") ? { status: 404 } : {});
    await expect(open(host, {})).rejects.toEqual(coded("store.http"));
  });
});

/** The connection breaks in a page, each time. */
function breaksAt(n: number): void {
  host.misbehave = (path) => (path === pathOf(n) ? { cutAfter: 10 } : {});
}
