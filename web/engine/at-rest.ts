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
import type { PrefixPages, Wanted } from "./prefix.ts";
import { Quiet } from "./quiet.ts";
import type { Kept, KeptPlace } from "./rack.ts";

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
  /** What the page of a state group is called, of those that this is the key of. */
  readonly ofGroup: (key: Bytes, group: number) => Promise<Bytes>;
}

/** A page that is looked for: what it is called, and the tokens in it, the same list for all groups. */
interface Named extends Wanted {
  readonly key: Bytes;
  readonly tokens: readonly number[];
}

/** Pages that nobody here has computed. Nothing of it is ever to fail, either. */
export interface PagesShipped {
  /** Whether a page seems to be there. */
  has(key: Bytes): boolean;
  /**
   * The first of some pages that are there and come sooner than they are computed. Those of the same tokens have one list
   * of them.
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

/** Stands for all that is shipped, where that does not come. */
const SHIPPED = "shipped";

export class AtRest {
  /** Pages that were found where they are kept, and those that were put there. */
  restored = 0;
  saved = 0;
  /** Tokens whose pages were found so, and those whose pages came with the bundle. */
  readonly tokens = { restored: 0, shipped: 0 };
  /** Pages that were let go of because they can be had again. */
  spilled = 0;
  /** Why nothing is saved for now: it is tried again when memory is to be given back, or pages are to be forgotten. */
  failure: EdgewiseError | null = null;
  /** Hears when there is something to do, and when not. */
  readonly quiet: Quiet;
  private readonly options: AtRestOptions;
  private readonly timer: Timer;
  private readonly memory: () => Memory | null;
  private readonly keys = new WeakMap<KeptPlace, Bytes>();
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
    const full = Math.floor(adoptable / this.options.pageTokens);
    try {
      await this.heed(); // for a short one, too: what is computed now is of the time after a clearing
      const named = this.namesOf(tokens);
      const absent = new Set<string>();
      const there = async (one: Wanted) => {
        if (absent.has(idOf(one))) return false;
        const { key } = await named(one);
        if (await this.options.pages?.has(key)) return true;
        return !absent.has(SHIPPED) && (this.options.shipped?.has(key) ?? false);
      };
      for (;;) {
        const count = await this.reach(tokens, full, there);
        const lost = await this.bring(tokens, count, named);
        if (!lost || !this.memory()?.prefixes.bounded) return;
        // Without this one what is there may do for fewer tokens.
        absent.add(this.options.shipped?.has(lost.key) ? SHIPPED : idOf(lost)).add(idOf(lost));
      }
    } catch (error) {
      this.complain(error);
    }
  }

  /** What the pages of a history are called. */
  private namesOf(tokens: readonly number[]): (one: Wanted) => Promise<Named> {
    const { keys, pageTokens } = this.options;
    const pages: (readonly number[])[] = [];
    const chain: Promise<Bytes>[] = [];
    return async (one) => {
      for (let at = chain.length; at <= one.nth; at++) {
        const page = tokens.slice(at * pageTokens, (at + 1) * pageTokens);
        const before = chain[at - 1] ?? Promise.resolve(keys.root);
        pages.push(page);
        chain.push(before.then((key) => keys.next(key, page)));
      }
      const key = await keys.ofGroup((await chain[one.nth]) ?? keys.root, one.group);
      return { ...one, key, tokens: pages[one.nth] ?? [] };
    };
  }

  /**
   * How many pages of a history, `most` of them, a sequence could begin with if what is kept were here. Without windows it
   * is not known before they are read.
   */
  private async reach(
    tokens: readonly number[],
    most: number,
    there: (one: Wanted) => Promise<boolean>,
  ): Promise<number> {
    let count = most;
    for (;;) {
      const prefixes = this.memory()?.prefixes;
      if (!prefixes?.bounded) return prefixes ? most : 0;
      const lacking = prefixes.lacks(tokens, count);
      const found = await Promise.all(lacking.map(there));
      const first = lacking[found.indexOf(false)];
      if (!first) return count;
      count = first.nth; // whoever begins with more needs this one, too
    }
  }

  /** Put into memory what is lacking of the first `count` pages of a history; what could not be found, null for nothing. */
  private async bring(
    tokens: readonly number[],
    count: number,
    named: (one: Wanted) => Promise<Named>,
  ): Promise<Named | null> {
    const lacking = this.memory()?.prefixes.lacks(tokens, count) ?? [];
    const told = { restored: -1, shipped: -1 };
    for (let at = 0; at < lacking.length; ) {
      const wanted = await Promise.all(lacking.slice(at, at + TOGETHER).map(named));
      const found = await this.kept(wanted.map(({ key }) => key));
      const here = await this.put(tokens, count, wanted, found, "restored", told);
      if (here < found.length) return null;
      at += here;
      const rest = wanted.slice(here);
      const [next] = rest;
      if (!next) continue;
      const speed = this.memory()?.prefillSpeed ?? null;
      const came = (await this.options.shipped?.bring(rest, speed)) ?? [];
      if (came.length === 0) return next;
      const more = await this.put(tokens, count, rest, came, "shipped", told);
      if (more < came.length) return null;
      at += more;
    }
    return null;
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

  /**
   * How many of these pages are in memory now, from the first on.
   *
   * @param told of which tokens pages were counted last.
   */
  private async put(
    tokens: readonly number[],
    count: number,
    wanted: readonly Named[],
    data: readonly Bytes[],
    from: "restored" | "shipped",
    told: { restored: number; shipped: number },
  ): Promise<number> {
    if (data.length === 0) return 0;
    const before = this.memory();
    const short = before?.prefixes.missing(data.length, [tokens, ...before.waiting()]) ?? 0;
    if (short > 0) await before?.more(short);
    const memory = this.memory();
    if (!memory || data.some(({ length }) => length !== memory.program.pageBytes)) return 0;
    const { prefixes, program } = memory;
    // From here on without waiting: nobody is to find what has not been written. Some may have come meanwhile, or gone.
    const placed = prefixes.place(tokens, count, wanted.slice(0, data.length));
    try {
      for (const [at, kept] of placed.entries()) {
        if (kept) program.writePage(kept.page, data[at] ?? new Uint8Array());
      }
    } catch (error) {
      prefixes.drop(placed.filter((kept) => kept !== null));
      throw error;
    }
    for (const [at, kept] of placed.entries()) {
      if (!kept) continue;
      if (from === "shipped") this.ofBundle.add(kept);
      else this.restored += 1;
      const nth = wanted[at]?.nth ?? 0;
      if (nth !== told[from]) this.tokens[from] += this.options.pageTokens;
      told[from] = nth;
    }
    return placed.length;
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

  private async keyOf({ place, group }: Kept): Promise<Bytes> {
    const chain: KeptPlace[] = [];
    let key = this.options.keys.root;
    for (let at: KeptPlace | null = place; at; at = at.before) {
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
    return this.options.keys.ofGroup(key, group);
  }

  /** A device that is lost is others' business; with any other error nothing is saved for now. */
  private complain(cause: unknown): void {
    const error = EdgewiseError.from(cause, "engine.failed", "Pages could not be kept");
    if (error.code !== "device.lost" && error.code !== "device.closed") this.failure = error;
  }
}

function idOf({ nth, group }: Wanted): string {
  return `${nth}:${group}`;
}
