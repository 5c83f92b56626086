import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fetchPiece } from "../../store/fetch.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { type Host, startHost } from "./host.ts";
import { makeOrigin, type Origin } from "./origin.ts";
import { contents, listen, publish } from "./support.ts";

const DATA = contents(10_000);
const RANGE = { start: 4000, end: 7000 };
const PART = DATA.slice(RANGE.start, RANGE.end);

let host: Host;
let origin: Origin;
let store: Store;

const ranges = () => host.asked.map(({ range }) => range);
const coded = (code: string) => expect.objectContaining({ name: "EdgewiseError", code });

beforeAll(async () => {
  host = await startHost();
});
afterAll(() => host.close());
beforeEach(async () => {
  host.asked.length = 0;
  host.misbehave = () => ({});
  origin = makeOrigin();
  store = await FileStore.open(origin.root);
});

describe("a piece", () => {
  it("comes over the network once, then from the store", async () => {
    const piece = publish(host, "a", DATA);
    const heard = listen();
    expect(await fetchPiece(piece, store, heard.options)).toEqual(DATA);
    expect([heard.network, heard.kept]).toEqual([DATA.length, 0]);
    expect(await fetchPiece(piece, store, heard.options)).toEqual(DATA);
    expect([heard.network, heard.kept]).toEqual([DATA.length, DATA.length]);
    expect(ranges()).toEqual([null]);
  });

  it("of a larger file is asked for by its range", async () => {
    const piece = publish(host, "a", DATA, RANGE);
    expect(await fetchPiece(piece, store, listen().options)).toEqual(PART);
    expect(ranges()).toEqual(["bytes=4000-6999"]);
  });

  it("without bytes is a piece too", async () => {
    const piece = publish(host, "empty", new Uint8Array());
    expect(await fetchPiece(piece, store, listen().options)).toEqual(new Uint8Array());
  });

  it("that is damaged in the store is fetched anew", async () => {
    const piece = publish(host, "a", DATA);
    for (const damaged of [contents(DATA.length, 2), DATA.slice(0, 50), new Uint8Array()]) {
      await store.write(piece.sha256, damaged);
      host.asked.length = 0;
      expect(await fetchPiece(piece, store, listen().options)).toEqual(DATA);
      expect(ranges()).toEqual([null]);
      expect(await store.read(piece.sha256)).toEqual(DATA);
    }
  });

  it("larger than any may be is refused before it is asked for", async () => {
    const piece = publish(host, "a", DATA);
    for (const bytes of [(32 << 20) + 1, -1, 1.5, Number.NaN]) {
      const fetching = fetchPiece({ ...piece, bytes }, store, listen().options);
      await expect(fetching).rejects.toEqual(coded("bundle.size"));
    }
    expect(ranges()).toEqual([]);
  });
});

describe("a connection that breaks", () => {
  it("is made again, for what is missing", async () => {
    const piece = publish(host, "a", DATA);
    host.misbehave = (_, nth) => (nth === 1 ? { cutAfter: 3000 } : {});
    const heard = listen();
    expect(await fetchPiece(piece, store, heard.options)).toEqual(DATA);
    expect(ranges()).toEqual([null, "bytes=3000-9999"]);
    expect(heard.network).toBe(DATA.length);
  });

  it("three times is an error; what had arrived is not fetched again", async () => {
    const piece = publish(host, "a", DATA, RANGE);
    host.misbehave = () => ({ cutAfter: 500 });
    await expect(fetchPiece(piece, store, listen().options)).rejects.toEqual(
      coded("store.network"),
    );
    expect(ranges()).toHaveLength(3);
    expect(await store.readPartial(piece.sha256)).toEqual(PART.slice(0, 1500));
    host.misbehave = () => ({});
    host.asked.length = 0;
    const heard = listen();
    expect(await fetchPiece(piece, store, heard.options)).toEqual(PART);
    expect(ranges()).toEqual(["bytes=5500-6999"]);
    expect([heard.network, heard.kept]).toEqual([1500, 1500]);
    expect(await store.listPartial()).toEqual([]);
  });

  it("is also a host that is busy, or not there", async () => {
    const piece = publish(host, "a", DATA);
    host.misbehave = (_, nth) => (nth < 3 ? { status: nth === 1 ? 503 : 429 } : {});
    expect(await fetchPiece(piece, store, listen().options)).toEqual(DATA);
    const nowhere = { ...publish(host, "b", contents(10)), url: "http://127.0.0.1:9/" };
    await expect(fetchPiece(nowhere, store, listen().options)).rejects.toEqual(
      coded("store.network"),
    );
  });
});

describe("cancelling", () => {
  it("ends a slow download and keeps what had arrived", async () => {
    const piece = publish(host, "a", DATA);
    host.misbehave = () => ({ slow: 5 });
    const heard = listen();
    const { options } = heard;
    const fetching = fetchPiece(piece, store, {
      ...options,
      onBytes: (bytes, fromNetwork) => {
        options.onBytes?.(bytes, fromNetwork);
        if (heard.network >= 2000) heard.abort();
      },
    });
    await expect(fetching).rejects.toEqual(coded("load.aborted"));
    const partial = await store.readPartial(piece.sha256);
    expect(partial?.length).toBeGreaterThanOrEqual(2000);
    expect(partial).toEqual(DATA.slice(0, partial?.length));
  });

  it("does not wait for the next attempt", async () => {
    const piece = publish(host, "a", DATA);
    const heard = listen();
    let cancelled = 0;
    host.misbehave = (_, nth) => {
      // The third attempt would come 1.2 seconds after the second.
      if (nth === 2) {
        setTimeout(() => {
          cancelled = performance.now();
          heard.abort();
        }, 50);
      }
      return { status: 500 };
    };
    const fetching = fetchPiece(piece, store, heard.options);
    await expect(fetching).rejects.toEqual(coded("load.aborted"));
    expect(performance.now() - cancelled).toBeLessThan(900);
    expect(ranges()).toHaveLength(2);
  });

  it("ends also what needs no network", async () => {
    const piece = publish(host, "a", DATA);
    await store.write(piece.sha256, DATA);
    const heard = listen();
    heard.abort();
    await expect(fetchPiece(piece, store, heard.options)).rejects.toEqual(coded("load.aborted"));
  });
});

describe("a host", () => {
  it("without ranges is read past what is not wanted", async () => {
    host.misbehave = () => ({ ignoreRange: true });
    const heard = listen();
    expect(await fetchPiece(publish(host, "a", DATA, RANGE), store, heard.options)).toEqual(PART);
    expect(heard.network).toBe(PART.length);
  });

  it("without ranges is no hindrance to going on", async () => {
    const piece = publish(host, "a", DATA);
    host.misbehave = (_, nth) => (nth === 1 ? { cutAfter: 3000 } : { ignoreRange: true });
    expect(await fetchPiece(piece, store, listen().options)).toEqual(DATA);
  });

  it("that compresses is counted by what comes out", async () => {
    const text = new TextEncoder().encode("fn main() {}\n".repeat(500));
    host.misbehave = () => ({ gzip: true });
    const heard = listen();
    expect(await fetchPiece(publish(host, "a.wgsl", text), store, heard.options)).toEqual(text);
    expect(heard.network).toBe(text.length);
  });

  it("with one wrong bit once is asked again for all of it", async () => {
    const piece = publish(host, "a", DATA);
    host.misbehave = (_, nth) => (nth === 1 ? { flip: 77 } : {});
    const heard = listen();
    expect(await fetchPiece(piece, store, heard.options)).toEqual(DATA);
    expect(ranges()).toEqual([null, null]);
    expect([heard.network, heard.kept]).toEqual([DATA.length, 0]);
  });

  it("with a wrong bit twice has a damaged copy, and nothing of it is kept", async () => {
    host.misbehave = () => ({ flip: 77 });
    const heard = listen();
    const fetching = fetchPiece(publish(host, "a", DATA), store, heard.options);
    await expect(fetching).rejects.toEqual(coded("bundle.checksum"));
    expect([...origin.files().keys()]).toEqual([]);
    expect(heard.network).toBe(0);
  });

  it("is not blamed for a partial that was damaged", async () => {
    const piece = publish(host, "a", DATA);
    await store.writePartial(piece.sha256, contents(2000, 9));
    const heard = listen();
    expect(await fetchPiece(piece, store, heard.options)).toEqual(DATA);
    expect(ranges()).toEqual(["bytes=2000-9999", null]);
    expect([heard.network, heard.kept]).toEqual([DATA.length, 0]);
  });

  it.each([
    ["a whole file", undefined],
    ["a range", RANGE],
  ])("that sends more than %s has is not listened to", async (_, range) => {
    const piece = publish(host, "a", DATA, range);
    host.misbehave = () => ({ extra: 900, slow: 1 });
    await expect(fetchPiece(piece, store, listen().options)).rejects.toEqual(coded("bundle.size"));
    expect(ranges()).toHaveLength(1);
    expect([...origin.files().keys()]).toEqual([]);
  });

  it.each([
    "bytes 0-2999/10000",
    "bytes 4000-8000/10000",
    "bytes 4000-3999/10000",
    "bytes=4000-6999/10000",
    "",
  ])("that answers a range with %j is not believed", async (contentRange) => {
    host.misbehave = () => ({ contentRange });
    const fetching = fetchPiece(publish(host, "a", DATA, RANGE), store, listen().options);
    await expect(fetching).rejects.toEqual(coded("store.http"));
  });

  it("that has no such file is asked once", async () => {
    const piece = publish(host, "a", DATA);
    host.files.delete("a");
    await expect(fetchPiece(piece, store, listen().options)).rejects.toEqual(coded("store.http"));
    expect(ranges()).toHaveLength(1);
  });
});

describe("a store that cannot keep a piece", () => {
  it("for want of room is told of, and the piece is used", async () => {
    origin.quota = 5000;
    const heard = listen();
    expect(await fetchPiece(publish(host, "a", DATA), store, heard.options)).toEqual(DATA);
    expect(heard.warnings).toEqual(["store.full"]);
    expect([...origin.files().keys()]).toEqual([]);
  });

  it("as another tab writes it just now says nothing", async () => {
    const unmovable = makeOrigin({ movable: false });
    const other = await FileStore.open(unmovable.root);
    const piece = publish(host, "a", DATA);
    const blobs = await unmovable.root.getDirectoryHandle("blobs");
    const theirs = await blobs.getFileHandle(piece.sha256, { create: true });
    const access = await theirs.createSyncAccessHandle();
    const heard = listen();
    expect(await fetchPiece(piece, other, heard.options)).toEqual(DATA);
    expect(heard.warnings).toEqual([]);
    access.write(DATA, { at: 0 });
    access.close();
    expect(await other.read(piece.sha256)).toEqual(DATA);
  });
});
