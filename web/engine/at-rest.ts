/**
 * KV pages that outlive the program's memory: what prompts begin with is restored where it is kept, or came with the
 * bundle, and what came to be kept in memory is saved while there is nothing else to do. After a longer while of that
 * memory is given back: what can be had again is let go of.
 *
 * A page's key says all that its bytes depend on, so that what is found is never wrong (`kv/keys.ts`); it is computed
 * for what is saved or looked for, not for every page.
 */

import type { LoadedProgram } from "../device/base.ts";
import type { Timer } from "../device/nudge.ts";
import { EdgewiseError } from "../errors.ts";
import type { Kept, PrefixPages } from "./prefix.ts";
import { Quiet } from "./quiet.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Where pages are kept by their keys. Nothing of it is ever to fail: a page is missing then, or not kept. */
export interface PagesAtRest {
  /** Whether pages may be put there now: others may be about to. */
  writable(): Promise<boolean>;
  get(key: Bytes): Promise<Bytes | null>;
  /** Another one after all that was kept has been removed, by whomever. */
  epoch(): Promise<string | null>;
  /** Whether it is kept now; nothing is that was computed in another epoch than this is. */
  put(key: Bytes, data: Bytes, epoch: string | null): Promise<boolean>;
  has(key: Bytes): Promise<boolean>;
}

/** What names pages. */
export interface Keys {
  /** The key before the first page of every history. */
  readonly root: Bytes;
  readonly next: (before: Bytes, tokens: readonly number[]) => Promise<Bytes>;
}

/** Pages that nobody here has computed. Nothing of it is ever to fail, either. */
export interface PagesShipped {
  /**
   * The first of some pages that are there and come sooner than they are computed.
   *
   * @param prefill tokens that were computed in a second; null where none were yet.
   */
  bring(
    wanted: readonly { readonly key: Bytes; readonly tokens: readonly number[] }[],
    prefill: number | null,
  ): Promise<readonly Bytes[]>;
}

export interface AtRestOptions {
  /** Null where nothing is kept. */
  readonly pages: PagesAtRest | null;
  /** Null where nothing came with the bundle. */
  readonly shipped: PagesShipped | null;
  readonly keys: Keys;
  readonly pageTokens: number;
  /** Milliseconds without work after which memory is given back; null for never. */
  readonly spillAfter: number | null;
}

/** What of an engine is restored to and saved from. */
export interface Memory {
  readonly program: LoadedProgram;
  readonly prefixes: PrefixPages;
  /** Have so many more pages made, if there may be more. */
  readonly more: (pages: number) => Promise<void>;
  /** Histories of those who wait: what is here of them has been put there for them, perhaps. */
  readonly waiting: () => readonly (readonly number[])[];
  /** Give back what nothing is in. */
  readonly less: () => Promise<void>;
  /** Tokens of prompts that were computed in a second; null where none were yet. */
  readonly prefillSpeed: number | null;
}

/** Milliseconds without work after which pages are saved, and between two of them: others want the disk, too. */
const WAIT_MS = { idle: 200, between: 5 } as const;
/** Pages that are looked for at once. */
const TOGETHER = 8;

export class AtRest {
  /** Pages that were found where they are kept, and those that were brought there. */
  restored = 0;
  saved = 0;
  /** Pages that came with the bundle. */
  shipped = 0;
  /** Pages that were let go of because they can be had again. */
  spilled = 0;
  /** Why nothing is saved for now: it is tried again when memory is to be given back, or pages are to be forgotten. */
  failure: EdgewiseError | null = null;
  /** Hears when there is something to do, and when not. */
  readonly quiet: Quiet;
  private readonly options: AtRestOptions;
  private readonly timer: Timer;
  private readonly memory: () => Memory | null;
  private readonly keys = new WeakMap<Kept, Bytes>();
  /** Pages that are kept with the bundle's files. */
  private readonly ofBundle = new WeakSet<Kept>();
  /** Pages of these up to that id are saved, or need not be. */
  private prefixes: PrefixPages | null = null;
  private seen = 0;
  /** Of what is in memory; undefined before anything is. */
  private epoch: string | null | undefined;

  /** @param memory what there is now; null while there is no device. */
  constructor(options: AtRestOptions, timer: Timer, memory: () => Memory | null) {
    this.options = options;
    this.timer = timer;
    this.memory = memory;
    const saving = { after: WAIT_MS.idle, work: (quiet: () => boolean) => this.save(quiet) };
    const spilling = {
      after: options.spillAfter,
      work: (quiet: () => boolean) => this.spill(quiet),
    };
    this.quiet = new Quiet(timer, [saving], spilling);
  }

  /**
   * Put into memory what is kept of the beginning of a history. Never rejects: what cannot be had is computed.
   *
   * @param adoptable most tokens that may come from pages.
   */
  async restore(tokens: readonly number[], adoptable: number): Promise<void> {
    const { keys, pageTokens } = this.options;
    const full = Math.floor(adoptable / pageTokens);
    const page = (nth: number) => tokens.slice(nth * pageTokens, (nth + 1) * pageTokens);
    try {
      await this.heed(); // for a short one, too: what is computed now is of the time after a clearing
      const chain: Bytes[] = [];
      const keyOf = async (nth: number) => {
        for (let at = chain.length; at <= nth; at++) {
          chain.push(await keys.next(chain[at - 1] ?? keys.root, page(at)));
        }
        return chain[nth] ?? keys.root;
      };
      let nth = this.memory()?.prefixes.adoptable(tokens, adoptable) ?? full;
      while (nth < full) {
        const wanted: { key: Bytes; tokens: readonly number[] }[] = [];
        for (let at = nth; at < Math.min(nth + TOGETHER, full); at++) {
          wanted.push({ key: await keyOf(at), tokens: page(at) });
        }
        const found = await this.kept(wanted.map(({ key }) => key));
        let placed = await this.put(tokens, nth, found, "restored");
        if (placed < found.length) return;
        if (placed < wanted.length) {
          const speed = this.memory()?.prefillSpeed ?? null;
          const came = (await this.options.shipped?.bring(wanted.slice(placed), speed)) ?? [];
          placed += await this.put(tokens, nth + placed, came, "shipped");
          if (placed < found.length + came.length || came.length === 0) return;
        }
        nth += placed;
      }
    } catch (error) {
      this.complain(error);
    }
  }

  /** What is kept is going to be removed: nothing that is in memory now is saved any more, nor found. */
  forget(): void {
    const prefixes = this.memory()?.prefixes;
    prefixes?.drop(prefixes.after(0));
    this.failure = null;
  }

  /** The first of some pages, as far as they are kept. */
  private async kept(keys: readonly Bytes[]): Promise<readonly Bytes[]> {
    const { pages } = this.options;
    if (!pages) return [];
    const found = await Promise.all(keys.map((one) => pages.get(one)));
    const missing = found.indexOf(null);
    return found.slice(0, missing < 0 ? found.length : missing) as Bytes[];
  }

  /** How many of these pages are in memory now, from the first on. */
  private async put(
    tokens: readonly number[],
    nth: number,
    data: readonly Bytes[],
    from: "restored" | "shipped",
  ): Promise<number> {
    if (data.length === 0) return 0;
    const before = this.memory();
    const short = before?.prefixes.missing(data.length, [tokens, ...before.waiting()]) ?? 0;
    if (short > 0) await before?.more(short);
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
    this[from] += placed.length;
    if (from === "shipped") for (const one of placed) this.ofBundle.add(one);
    return here - nth + placed.length;
  }

  /** Save what came to be kept since, unless that has failed. */
  private async save(quiet: () => boolean): Promise<void> {
    if (!this.failure && quiet()) await this.saveAll(quiet);
  }

  /**
   * Save what is not, then let go of all that can be had again and give its memory back, unless there is something to do
   * before all is ready: it is one change, which nobody sees the half of.
   */
  private async spill(quiet: () => boolean): Promise<void> {
    this.seen = 0;
    await this.saveAll(quiet);
    const memory = this.memory();
    if (!memory) return;
    const { prefixes } = memory;
    const safe = new Set<Kept>();
    try {
      for (const kept of prefixes.resting) {
        if (!quiet()) return;
        if (await this.isSafe(kept)) safe.add(kept);
      }
    } catch (error) {
      this.complain(error);
    }
    if (!quiet() || this.memory()?.prefixes !== prefixes) return;
    this.spilled += prefixes.letGo(safe);
    await memory.less();
  }

  /** Whether a page can be had again: its file has been read, or it came with the bundle. */
  private async isSafe(kept: Kept): Promise<boolean> {
    if (this.ofBundle.has(kept)) return true;
    return ((await this.options.pages?.get(await this.keyOf(kept))) ?? null) !== null;
  }

  /** Where all that was kept has been removed since this was looked at, nothing of before is found any more. */
  private async heed(): Promise<void> {
    const { pages } = this.options;
    if (!pages) return;
    const before = this.epoch;
    this.epoch = await pages.epoch();
    if (before !== undefined && before !== this.epoch) this.forget();
  }

  /** Save what came to be kept since, as long as it is quiet. Never rejects. */
  private async saveAll(quiet: () => boolean): Promise<void> {
    const memory = this.memory();
    const { pages } = this.options;
    if (!memory || !pages) return;
    const { prefixes, program } = memory;
    if (prefixes !== this.prefixes) {
      this.prefixes = prefixes;
      this.seen = 0;
    }
    const here = (kept: Kept) => quiet() && prefixes.keeps(kept);
    const there = async (kept: Kept, key: Bytes) =>
      this.ofBundle.has(kept) || (await pages.has(key));
    try {
      if (!(await pages.writable())) return;
      await this.heed();
      for (const kept of prefixes.after(this.seen)) {
        const key = await this.keyOf(kept);
        if (!(await there(kept, key)) && here(kept)) {
          const data = await program.readPage(kept.page);
          const wanted = prefixes.keeps(kept);
          if (wanted && (await pages.put(key, data, this.epoch ?? null))) this.saved += 1;
          else await this.heed();
          await new Promise<void>((resolve) => this.timer(WAIT_MS.between, resolve));
        }
        if (!quiet()) return;
        this.seen = kept.id;
      }
      this.failure = null;
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

  /** A device that is lost is others' business; with any other error nothing is saved for now. */
  private complain(cause: unknown): void {
    const error = EdgewiseError.from(cause, "engine.failed", "Pages could not be kept");
    if (error.code !== "device.lost" && error.code !== "device.closed") this.failure = error;
  }
}
