import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fetchAll, outstanding, streamPieces } from "../../store/download.ts";
import { MemoryStore } from "../../store/memory.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Piece } from "../../store/pieces.ts";
import { type Host, startHost } from "./host.ts";
import { makeOrigin } from "./origin.ts";
import { contents, listen, publish, sha256 } from "./support.ts";

const SIZE = 10_000;
const coded = (code: string) => expect.objectContaining({ name: "EdgewiseError", code });

let host: Host;
beforeAll(async () => {
  host = await startHost();
});
afterAll(() => host.close());
beforeEach(() => {
  host.asked.length = 0;
  host.misbehave = () => ({});
  outstanding.peak = 0;
});

function files(count: number): readonly Piece[] {
  return Array.from({ length: count }, (_, i) => publish(host, `f${i}`, contents(SIZE, i + 1)));
}

describe("pieces that are streamed", () => {
  it("are used in their order, one while the next one comes", async () => {
    const pieces = files(5);
    const used: string[] = [];
    await streamPieces(
      pieces,
      new MemoryStore(),
      async (piece, data) => {
        expect(sha256(data)).toBe(piece.sha256);
        used.push(piece.path);
        const coming = Math.min(used.length + 1, pieces.length);
        await expect.poll(() => host.asked.length).toBe(coming);
      },
      listen().options,
    );
    expect(used).toEqual(["f0", "f1", "f2", "f3", "f4"]);
    expect(outstanding).toEqual({ now: 0, peak: 2 * SIZE });
  });

  it.each([1, 2, 4])("are at most %i at a time", async (maxOutstanding) => {
    await streamPieces(files(6), new MemoryStore(), async () => undefined, {
      ...listen().options,
      maxOutstanding,
    });
    expect(outstanding).toEqual({ now: 0, peak: maxOutstanding * SIZE });
  });

  it("may be the same one twice", async () => {
    const [piece] = files(1);
    if (!piece) throw new Error("one piece");
    const store = await FileStore.open(makeOrigin().root);
    let used = 0;
    await streamPieces([piece, piece, piece], store, async () => void used++, listen().options);
    expect(used).toBe(3);
    expect(host.asked).toHaveLength(1);
  });

  it("end with the first error of one, and nothing runs any more", async () => {
    host.misbehave = (path) => (path === "f2" ? { flip: 0 } : {});
    const used: string[] = [];
    const streaming = streamPieces(
      files(5),
      new MemoryStore(),
      async (piece) => void used.push(piece.path),
      listen().options,
    );
    await expect(streaming).rejects.toEqual(coded("bundle.checksum"));
    expect(used).toEqual(["f0", "f1"]);
    expect(host.asked.map(({ path }) => path)).toEqual(["f0", "f1", "f2", "f2"]);
    expect(outstanding.now).toBe(0);
  });

  it("end with the error of who uses them, once the download after it is put away", async () => {
    host.misbehave = (path) => (path === "f1" ? { slow: 500 } : {});
    const origin = makeOrigin();
    const store = await FileStore.open(origin.root);
    const pieces = files(3);
    const heard = listen();
    const begun = performance.now();
    const streaming = streamPieces(
      pieces,
      store,
      async () => {
        await expect.poll(() => heard.network).toBeGreaterThan(SIZE);
        throw new Error("the device is lost");
      },
      heard.options,
    );
    // Looked at when it rejects, not later.
    const left = await streaming.then(
      () => [],
      (error: Error) => [error.message, ...origin.files().keys()],
    );
    expect(left).toEqual([
      "the device is lost",
      `blobs/${pieces[0]?.sha256}`,
      `partial/${pieces[1]?.sha256}`,
    ]);
    expect(performance.now() - begun).toBeLessThan(4000);
    expect(outstanding.now).toBe(0);
  });

  it("end when they are cancelled, also where all are kept", async () => {
    const store = await FileStore.open(makeOrigin().root);
    const pieces = files(4);
    await streamPieces(pieces, store, async () => undefined, listen().options);
    const heard = listen();
    const used: string[] = [];
    const streaming = streamPieces(
      pieces,
      store,
      async (piece) => {
        used.push(piece.path);
        heard.abort();
      },
      heard.options,
    );
    await expect(streaming).rejects.toEqual(coded("load.aborted"));
    expect(used.length).toBeLessThan(3);
    expect(outstanding.now).toBe(0);
  });

  it("warn once that there is no room", async () => {
    const origin = makeOrigin();
    const store = await FileStore.open(origin.root);
    origin.quota = 2.5 * SIZE;
    const heard = listen();
    let used = 0;
    await streamPieces(files(5), store, async () => void used++, heard.options);
    expect(used).toBe(5);
    expect(heard.warnings).toEqual(["store.full"]);
    expect(await store.list()).toHaveLength(2);
  });
});

describe("many small pieces", () => {
  it("come a few at a time, each content once", async () => {
    const store = await FileStore.open(makeOrigin().root);
    host.misbehave = () => ({ slow: 1 });
    const pieces = files(40);
    const heard = listen();
    const found = await fetchAll([...pieces, ...pieces], store, heard.options);
    expect(found.size).toBe(40);
    for (const [hash, data] of found) expect(sha256(data)).toBe(hash);
    expect(host.asked).toHaveLength(40);
    expect(host.busiest()).toBeGreaterThan(1);
    expect(host.busiest()).toBeLessThanOrEqual(6);
    expect(heard.network).toBe(40 * SIZE);
  });

  it("end with the first error, and nothing runs any more", async () => {
    const pieces = files(40);
    host.files.delete("f3");
    const fetching = fetchAll(pieces, new MemoryStore(), listen().options);
    await expect(fetching).rejects.toEqual(coded("store.http"));
    const asked = host.asked.length;
    expect(asked).toBeLessThan(40);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(host.asked).toHaveLength(asked);
  });

  it("may be none", async () => {
    expect(await fetchAll([], new MemoryStore(), listen().options)).toEqual(new Map());
  });
});
