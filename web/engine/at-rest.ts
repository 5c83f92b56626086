/**
 * KV pages that outlive the program's memory: what prompts begin with is restored where it is kept, and what came to be
 * kept in memory is saved while there is nothing else to do.
 *
 * A page's key says all that its bytes depend on, so that what is found is never wrong (`kv/keys.ts`); it is computed
 * for what is saved or looked for, not for every page.
 */

import type { LoadedProgram } from "../device/base.ts";
import type { Timer } from "../device/nudge.ts";
import { EdgewiseError } from "../errors.ts";
import type { Kept, PrefixPages } from "./prefix.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Where pages are kept by their keys. Nothing of it is ever to fail: a page is missing then, or not kept. */
export interface PagesAtRest {
  /** Whether pages may be put there now: others may be about to. */
  writable(): Promise<boolean>;
  get(key: Bytes): Promise<Bytes | null>;
  /** Whether it is kept now. */
  put(key: Bytes, data: Bytes): Promise<boolean>;
  has(key: Bytes): Promise<boolean>;
}

/** What names pages. */
export interface Keys {
  /** The key before the first page of every history. */
  readonly root: Bytes;
  readonly next: (before: Bytes, tokens: readonly number[]) => Promise<Bytes>;
}

export interface AtRestOptions {
  readonly pages: PagesAtRest;
  readonly keys: Keys;
  readonly pageTokens: number;
}

/** What of an engine is restored to and saved from. */
export interface Memory {
  readonly program: LoadedProgram;
  readonly prefixes: PrefixPages;
  /** Have so many more pages made, if there may be more. */
  readonly more: (pages: number) => Promise<void>;
}

/** Milliseconds without work after which pages are saved, and between two of them: others want the disk, too. */
const WAIT_MS = { idle: 200, between: 5 } as const;
/** Pages that are looked for at once. */
const TOGETHER = 8;

export class AtRest {
  /** Pages that were found where they are kept, and those that were brought there. */
  restored = 0;
  saved = 0;
  /** Why nothing is restored or saved any more. */
  failure: EdgewiseError | null = null;
  private readonly options: AtRestOptions;
  private readonly timer: Timer;
  private readonly memory: () => Memory | null;
  private readonly keys = new WeakMap<Kept, Bytes>();
  /** Pages of these up to that id are saved, or need not be. */
  private prefixes: PrefixPages | null = null;
  private seen = 0;
  /** Ends what waits for quiet, and what has begun in it. */
  private disturb = () => {};

  /** @param memory what there is now; null while there is no device. */
  constructor(options: AtRestOptions, timer: Timer, memory: () => Memory | null) {
    this.options = options;
    this.timer = timer;
    this.memory = memory;
  }

  /**
   * Put into memory what is kept of the beginning of a history. Never rejects: what cannot be had is computed.
   *
   * @param adoptable most tokens that may come from pages.
   */
  async restore(tokens: readonly number[], adoptable: number): Promise<void> {
    const { keys, pageTokens } = this.options;
    const full = this.failure ? 0 : Math.floor(adoptable / pageTokens);
    const page = (nth: number) => tokens.slice(nth * pageTokens, (nth + 1) * pageTokens);
    try {
      let key = keys.root;
      const here = this.memory()?.prefixes.adoptable(tokens, adoptable) ?? full;
      for (let nth = 0; nth < Math.min(here, full); nth++) key = await keys.next(key, page(nth));
      for (let nth = here; nth < full; ) {
        const wanted: Bytes[] = [];
        for (let at = nth; at < Math.min(nth + TOGETHER, full); at++) {
          key = await keys.next(key, page(at));
          wanted.push(key);
        }
        const found = await Promise.all(wanted.map((one) => this.options.pages.get(one)));
        const missing = found.indexOf(null);
        const data = found.slice(0, missing < 0 ? found.length : missing) as Bytes[];
        const placed = await this.put(tokens, nth, data);
        nth += placed;
        if (placed < wanted.length) return;
      }
    } catch (error) {
      this.complain(error);
    }
  }

  /** There is nothing to do for now: pages are saved once that has been so for a while. */
  idle(): void {
    this.disturb();
    let quiet = true;
    const cancel = this.timer(WAIT_MS.idle, () => void this.save(() => quiet));
    this.disturb = () => {
      quiet = false;
      cancel();
    };
  }

  /** There is something to do. */
  busy(): void {
    this.disturb();
  }

  /** How many of these pages are in memory now, from the first on. */
  private async put(
    tokens: readonly number[],
    nth: number,
    data: readonly Bytes[],
  ): Promise<number> {
    const short = data.length - (this.memory()?.prefixes.obtainable ?? 0);
    if (short > 0) await this.memory()?.more(short);
    const memory = this.memory();
    if (!memory || data.some(({ length }) => length !== memory.program.pageBytes)) return 0;
    const { prefixes, program } = memory;
    // Some may have come meanwhile, or gone.
    const here = prefixes.adoptable(tokens, (nth + data.length) * this.options.pageTokens);
    if (here < nth) return 0;
    const lacking = data.slice(here - nth);
    // From here on without waiting: nobody is to find what has not been written.
    const placed = prefixes.place(tokens, here, lacking.length);
    try {
      for (const [at, { page }] of placed.entries()) {
        program.writePage(page, lacking[at] ?? new Uint8Array());
      }
    } catch (error) {
      prefixes.drop(placed);
      throw error;
    }
    this.restored += placed.length;
    return here - nth + placed.length;
  }

  /** Save what came to be kept since, as long as it is quiet. Never rejects. */
  private async save(quiet: () => boolean): Promise<void> {
    const memory = this.memory();
    if (!memory || this.failure) return;
    const { prefixes, program } = memory;
    if (prefixes !== this.prefixes) {
      this.prefixes = prefixes;
      this.seen = 0;
    }
    const here = (kept: Kept) => quiet() && prefixes.keeps(kept);
    try {
      if (!(await this.options.pages.writable())) return;
      for (const kept of prefixes.after(this.seen)) {
        const key = await this.keyOf(kept);
        if (!(await this.options.pages.has(key)) && here(kept)) {
          const data = await program.readPage(kept.page);
          if (await this.options.pages.put(key, data)) this.saved += 1;
          await new Promise<void>((resolve) => this.timer(WAIT_MS.between, resolve));
        }
        if (!quiet()) return;
        this.seen = kept.id;
      }
    } catch (error) {
      this.complain(error);
    }
  }

  private async keyOf(kept: Kept): Promise<Bytes> {
    const chain: Kept[] = [];
    let key = this.options.keys.root;
    for (let at: Kept | null = kept; at; at = at.before) {
      const known = this.keys.get(at);
      if (known) {
        key = known;
        break;
      }
      chain.push(at);
    }
    for (const one of chain.reverse()) {
      key = await this.options.keys.next(key, one.tokens);
      this.keys.set(one, key);
    }
    return key;
  }

  /** A device that is lost is others' business; with any other error nothing is restored or saved any more. */
  private complain(cause: unknown): void {
    const error = EdgewiseError.from(cause, "engine.failed", "Pages could not be kept");
    if (error.code !== "device.lost" && error.code !== "device.closed") this.failure = error;
  }
}
