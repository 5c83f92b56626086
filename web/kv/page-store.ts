/**
 * Pages at rest in the browser: a file each, in a store of their own beside that of weights, least recently used ones
 * forgotten first.
 *
 * Nothing here has to hold for pages to be right: a file is believed only if it is whole and the page that it is asked
 * for (`page-file.ts`). Two tabs that write at once, an order that was lost or files that the browser took away cost
 * time. So one tab writes at a time where the browser has locks, and any does where it has none.
 */

import { hex, sha256 } from "../digest.ts";
import { EdgewiseError } from "../errors.ts";
import { isFull } from "../store/dom-errors.ts";
import type { Store } from "../store/store.ts";
import { alone, clearPages, epochOf } from "./clearing.ts";
import { decodePage, encodePage, HEADER_BYTES } from "./page-file.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Files of all producers at most. */
export const MAX_FILES = 1 << 16;
/** The order is written after so many changes of it. */
const CHANGES = 16;
const ORDER = "order";
const LOCK = "edgewise-pages";
const NAME = /^[0-9a-f]{32}-[0-9a-f]{64}$/;

export interface PageStoreOptions {
  /** What computes the pages; those of others are never found. */
  readonly producer: string;
  /** Bytes of each. */
  readonly pageBytes: number;
  /** Bytes of all files, of other producers too. */
  readonly limit: number;
}

/** What there is of pages, of all producers. */
export interface PagesStored {
  readonly pages: number;
  readonly bytes: number;
  readonly limit: number;
  /** Pages that could not be written, and files that were not what they are called and were removed. */
  readonly dropped: number;
  readonly damaged: number;
  /** Why the last change that was tried did not work; null where it did. */
  readonly failure: EdgewiseError | null;
}

export class PageStore {
  private readonly store: Store;
  private readonly producer: Bytes;
  private readonly pageBytes: number;
  private limit: number;
  /** Bytes by name, least recently used first. */
  private readonly known = new Map<string, number>();
  private bytes = 0;
  private changes = 0;
  private dropped = 0;
  private damaged = 0;
  private failure: EdgewiseError | null = null;
  /** The store's epoch when it was last looked at; null where it has none. */
  private seen: string | null = null;
  private writing: Promise<unknown> = Promise.resolve();
  private releaseLock: (() => void) | null = null;
  private closed = false;

  private constructor(store: Store, producer: Bytes, { pageBytes, limit }: PageStoreOptions) {
    this.store = store;
    this.producer = producer;
    this.pageBytes = pageBytes;
    this.limit = limit;
  }

  /** @param store nobody else's; pages of all producers are in it. */
  static async open(store: Store, options: PageStoreOptions): Promise<PageStore> {
    const producer = await sha256(new TextEncoder().encode(options.producer));
    const pages = new PageStore(store, producer, options);
    pages.seen = await epochOf(store).catch(() => null);
    await pages.scan();
    return pages;
  }

  get stored(): PagesStored {
    const { known, bytes, limit, dropped, damaged, failure } = this;
    return { pages: known.size, bytes, limit, dropped, damaged, failure };
  }

  /** A page's bytes, which makes it the most recently used; null where it is not there, or no longer whole. */
  async get(key: Bytes): Promise<Bytes | null> {
    if (this.closed) return null;
    const name = this.nameOf(key);
    try {
      const file = await this.store.read(name);
      if (!file) {
        this.forget(name);
        return null;
      }
      const page = await decodePage({ producer: this.producer, key }, this.pageBytes, file);
      if (page) {
        this.use(name, file.length);
        return page;
      }
      this.damaged += 1;
      await this.remove(name);
    } catch {
      // Whatever the browser says: it is not there.
    }
    return null;
  }

  async has(key: Bytes): Promise<boolean> {
    return this.known.has(this.nameOf(key));
  }

  /** Another one after all pages have been removed, by whomever; null where that cannot be told. */
  async epoch(): Promise<string | null> {
    const now = await epochOf(this.store).catch(() => this.seen);
    if (now !== this.seen) void this.inTurn(() => this.scan(), undefined);
    this.seen = now;
    return now;
  }

  /** Whether this tab may write now. */
  writable(): Promise<boolean> {
    return this.inTurn(async () => !this.closed && (await this.mayWrite()), false);
  }

  /**
   * Keep a page as the most recently used, if there is room and nobody else writes: whether it is kept.
   *
   * @param epoch of when it was computed: a page of another one is to be forgotten.
   */
  put(key: Bytes, data: Bytes, epoch = this.seen): Promise<boolean> {
    return this.inTurn(async () => {
      const name = this.nameOf(key);
      const size = HEADER_BYTES + data.length;
      if (this.closed || size > this.limit || !(await this.mayWrite())) return false;
      const file = await encodePage({ producer: this.producer, key }, data);
      return alone(async () => {
        if ((await epochOf(this.store)) !== epoch) return false;
        await this.makeRoom(size);
        const kept = (await this.written(name, file)) || (await this.writtenAfterAll(name, file));
        if (kept) this.use(name, size);
        else this.dropped += 1;
        this.failure = kept ? null : full(size);
        if (kept && (await epochOf(this.store)) !== epoch) {
          await this.remove(name);
          return false;
        }
        return kept;
      });
    }, false);
  }

  /** Have at most so many bytes from now on. */
  setLimit(bytes: number): Promise<void> {
    return this.inTurn(async () => {
      this.limit = bytes;
      await this.makeRoom(0);
    }, undefined);
  }

  /** Forget the pages of all producers. */
  clear(): Promise<void> {
    return this.inTurn(async () => {
      this.seen = await clearPages(this.store);
      this.known.clear();
      this.bytes = 0;
      this.changes = 0;
      this.failure = null;
    }, undefined);
  }

  /** Write down the order, and let another tab write. */
  async close(): Promise<void> {
    await this.inTurn(() => this.noteOrder(), undefined);
    this.closed = true;
    this.releaseLock?.();
  }

  /** What is there, and what is known of the order. Others may have changed it. */
  private async scan(): Promise<void> {
    const [listed, note] = await Promise.all([
      this.store.list().catch(() => []),
      this.store.note(ORDER).catch(() => null),
    ]);
    const sizes = new Map(listed.map(({ sha256, bytes }) => [sha256, bytes]));
    const order = note ? new TextDecoder().decode(note).split("\n").slice(0, MAX_FILES) : [];
    this.known.clear();
    this.bytes = 0;
    for (const name of new Set([...order, ...sizes.keys()])) {
      const bytes = sizes.get(name);
      if (bytes !== undefined && NAME.test(name)) this.enter(name, bytes);
    }
  }

  private async written(name: string, file: Bytes): Promise<boolean> {
    try {
      await this.store.write(name, file);
      return true;
    } catch (error) {
      if (!isFull(error)) throw error;
      return false;
    }
  }

  /** The browser has less room than the limit: once more, without the pages that were not used for longest. */
  private async writtenAfterAll(name: string, file: Bytes): Promise<boolean> {
    await this.makeRoom(this.limit - this.bytes + 2 * file.length);
    return this.written(name, file);
  }

  /** Remove the least recently used until so many bytes more fit. */
  private async makeRoom(bytes: number): Promise<void> {
    for (const name of [...this.known.keys()]) {
      const full = this.known.size + Number(bytes > 0) > MAX_FILES;
      if (this.bytes + bytes <= this.limit && !full) return;
      await this.remove(name);
    }
  }

  private async remove(name: string): Promise<void> {
    this.forget(name);
    await this.store.remove(name).catch(() => undefined); // another tab has it open: it goes next time
  }

  private use(name: string, bytes: number): void {
    this.forget(name);
    this.enter(name, bytes);
    this.changes += 1;
    if (this.changes >= CHANGES) void this.inTurn(() => this.noteOrder(), undefined);
  }

  private async noteOrder(): Promise<void> {
    if (this.changes === 0 || !(await this.mayWrite())) return;
    this.changes = 0;
    await alone(async () => {
      if ((await epochOf(this.store)) !== this.seen) return;
      const order = [...this.known.keys()].join("\n");
      await this.store.setNote(ORDER, new TextEncoder().encode(order));
    });
  }

  private enter(name: string, bytes: number): void {
    this.known.set(name, bytes);
    this.bytes += bytes;
  }

  private forget(name: string): void {
    this.bytes -= this.known.get(name) ?? 0;
    this.known.delete(name);
  }

  private nameOf(key: Bytes): string {
    return `${hex(this.producer).slice(0, 32)}-${hex(key)}`;
  }

  /** One change after the other; one that fails changes nothing. */
  private inTurn<T>(change: () => Promise<T>, failed: T): Promise<T> {
    const done = this.writing.then(change).catch((cause: unknown) => {
      this.failure = EdgewiseError.from(cause, "store.pages", "Pages could not be kept");
      return failed;
    });
    this.writing = done;
    return done;
  }

  /** Whether this tab writes. Who comes to do so after another looks at what that one has done. */
  private async mayWrite(): Promise<boolean> {
    const locks = globalThis.navigator?.locks;
    if (!locks || this.releaseLock) return true;
    const held = await new Promise<boolean>((resolve) => {
      const keep = (lock: Lock | null) => {
        resolve(lock !== null);
        if (!lock) return undefined;
        return new Promise<void>((release) => {
          this.releaseLock = release;
        });
      };
      locks.request(LOCK, { ifAvailable: true }, keep).catch(() => resolve(false));
    });
    if (!held) return false;
    // Who wrote before may have been ended in the middle; who clears writes, too.
    await alone(async () => this.store.sweep?.()).catch(() => undefined);
    await this.scan();
    return true;
  }
}

function full(bytes: number): EdgewiseError {
  return new EdgewiseError(
    "store.full",
    `The browser has no room for another ${bytes} bytes of pages.`,
    "Free some space on this device, or keep fewer models.",
  );
}
