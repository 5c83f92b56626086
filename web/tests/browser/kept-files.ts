/** What lies in a browser's store of KV pages, read without the product's own code, and whether it is sound. */
import type { Page } from "playwright-core";
import { expect } from "vitest";

/** A file of the store. */
export interface KeptFile {
  readonly name: string;
  readonly bytes: number;
  /** Whether its hash is that of its contents, and its length the one that it says. */
  readonly whole: boolean;
  /** In hex, as its header has them. */
  readonly producer: string;
  readonly key: string;
}

export interface KeptFiles {
  readonly files: readonly KeptFile[];
  /** Names of what is unfinished, begun, or belongs to no file. */
  readonly unfinished: readonly string[];
}

/** What files may be: pages of these producers with these keys. */
export interface Sound {
  readonly producers: ReadonlySet<string>;
  readonly keys: ReadonlySet<string>;
  /** Bytes of all of them. */
  readonly limit: number;
}

/** All that is there, in the origin's files or else in IndexedDB. */
export function keptFiles(page: Page): Promise<KeptFiles> {
  return page.evaluate(readKept);
}

/** Every file is whole, under its own name, a page that somebody can have asked for, and there are not too many. */
export function expectSound({ files }: KeptFiles, { producers, keys, limit }: Sound): void {
  const unsound = files.flatMap(({ name, whole, producer, key }) => {
    if (!whole) return [`${name} is torn`];
    if (name !== `${producer.slice(0, 32)}-${key}`) return [`${name} holds ${producer} ${key}`];
    if (!producers.has(producer)) return [`${name} is of another producer`];
    return keys.has(key) ? [] : [`${name} is of a page that nobody asked for`];
  });
  expect(unsound).toEqual([]);
  expect(files.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(limit);
}

/** Runs in the browser, from its text: it may use nothing of this file. */
async function readKept(): Promise<KeptFiles> {
  const HEADER = 112; // magic, version, producer, key, bytes, hash
  const hex = (data: Uint8Array) =>
    [...data].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const read = async (name: string, data: Uint8Array<ArrayBuffer>): Promise<KeptFile> => {
    const producer = hex(data.subarray(8, 40));
    const key = hex(data.subarray(40, 72));
    const rest = new Uint8Array(Math.max(data.length - 32, 0));
    rest.set(data.subarray(0, 80));
    if (data.length > HEADER) rest.set(data.subarray(HEADER), 80);
    const hash = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", rest)));
    const long = data.length > HEADER && new DataView(data.buffer).getBigUint64(72, true);
    const magic = new TextDecoder().decode(data.subarray(0, 4)) === "EWKV";
    const whole =
      magic && long === BigInt(data.length - HEADER) && hash === hex(data.subarray(80, HEADER));
    return { name, bytes: data.length, whole, producer, key };
  };
  const gone = (error: unknown) => {
    const known = ["NotFoundError", "NotReadableError"];
    if (error instanceof DOMException && known.includes(error.name)) return null;
    throw error;
  };

  const ofOrigin = async (origin: FileSystemDirectoryHandle): Promise<KeptFiles> => {
    const files: KeptFile[] = [];
    const unfinished: string[] = [];
    const root = await origin.getDirectoryHandle("edgewise-pages").catch(gone);
    if (!root) return { files, unfinished };
    for await (const [name, folder] of root.entries()) {
      // Who opens the store tries whether it can be written, with a file of one byte beside the folders.
      if (!(folder instanceof FileSystemDirectoryHandle)) continue;
      const entries: FileSystemHandle[] = [];
      for await (const entry of folder.values()) entries.push(entry);
      for (const entry of entries) {
        const whole = name === "blobs" && !entry.name.endsWith(".tmp");
        const note = name === "notes" && !entry.name.endsWith(".tmp");
        if (!whole && !note) unfinished.push(`${name}/${entry.name}`);
        if (!whole || !(entry instanceof FileSystemFileHandle)) continue;
        // Removed or replaced meanwhile: the next look will see.
        const data = await entry
          .getFile()
          .then((file) => file.arrayBuffer(), gone)
          .catch(gone);
        if (data) files.push(await read(entry.name, new Uint8Array(data)));
      }
    }
    return { files, unfinished };
  };

  const ofDatabase = async (): Promise<KeptFiles> => {
    const known = await indexedDB.databases();
    if (!known.some(({ name }) => name === "edgewise-pages")) return { files: [], unfinished: [] };
    const settle = <T>(request: IDBRequest<T>) =>
      new Promise<T>((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
    const database = await settle(indexedDB.open("edgewise-pages"));
    const tables = ["blobs", "partial", "sizes"];
    const transaction = database.transaction(tables);
    const [names = [], partial = [], sized = []] = await Promise.all(
      tables.map((table) => settle(transaction.objectStore(table).getAllKeys())),
    );
    const blobs: unknown[] = await settle(transaction.objectStore("blobs").getAll());
    const sizes: unknown[] = await settle(transaction.objectStore("sizes").getAll());
    database.close();
    const files = await Promise.all(
      blobs.map((data, at) =>
        read(
          String(names[at]),
          new Uint8Array(data instanceof ArrayBuffer ? data : new ArrayBuffer(0)),
        ),
      ),
    );
    const wanted = files.map(({ name, bytes }) => `blobs ${name} ${bytes}`).sort();
    const said = sized.map((name, at) => `${name} ${sizes[at]}`).sort();
    const unlike = [
      ...wanted.filter((one) => !said.includes(one)),
      ...said.filter((one) => !wanted.includes(one)),
    ];
    return { files, unfinished: [...partial.map(String), ...unlike] };
  };

  const origin = await navigator.storage.getDirectory?.().catch(() => null);
  return origin ? ofOrigin(origin) : ofDatabase();
}
