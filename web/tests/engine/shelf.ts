/** Pages kept by their keys in a test's memory, and clocks that stand still. */

import { createHash } from "node:crypto";
import {
  AtRest,
  type AtRestOptions,
  type PagesAtRest,
  type PagesShipped,
} from "../../engine/at-rest.ts";
import type { EngineOptions } from "../../engine/engine.ts";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { turn } from "./support.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export class Shelf implements PagesAtRest {
  readonly pages = new Map<string, Bytes>();
  /** Keys of pages that seem to be there, and are not. */
  hides: ReadonlySet<string> = new Set();
  /** Keys that were looked for. */
  readonly asked: string[] = [];
  /** Resolves when something that was asked for may be told. */
  arrive: () => Promise<void> = () => Promise.resolve();
  private release = () => {};

  /** Nothing is told until the function that it returns is called. */
  hold(): () => void {
    const held = new Promise<void>((resolve) => {
      this.release = resolve;
    });
    this.arrive = () => held;
    return () => this.release();
  }

  async get(key: Bytes): Promise<Bytes | null> {
    this.asked.push(hex(key));
    await this.arrive();
    if (this.hides.has(hex(key))) return null;
    return this.pages.get(hex(key))?.slice() ?? null;
  }

  async epoch(): Promise<string> {
    return "the first";
  }

  async writable(): Promise<boolean> {
    return true;
  }

  /** Whether the nth page that is put there is kept. */
  keeps: (nth: number) => boolean = () => true;
  private puts = 0;

  async put(key: Bytes, data: Bytes): Promise<boolean> {
    this.puts += 1;
    const kept = this.keeps(this.puts);
    await this.arrive();
    if (!kept) return false;
    this.pages.set(hex(key), data.slice());
    return true;
  }

  async has(key: Bytes): Promise<boolean> {
    await this.arrive();
    return this.pages.has(hex(key));
  }

  /** What an engine needs to keep its pages here. */
  get keeping(): NonNullable<EngineOptions["atRest"]> {
    return restingOn({ pages: this, shipped: null });
  }
}

/** Where an engine is to find pages, and keep them. */
export function restingOn(
  where: Pick<AtRestOptions, "pages" | "shipped">,
  spillAfter: number | null = null,
): NonNullable<EngineOptions["atRest"]> {
  const next = async (before: Bytes, tokens: readonly number[]) =>
    new Uint8Array(createHash("sha256").update(before).update(tokens.join()).digest());
  const ofGroup = async (key: Bytes, group: number) => (group === 0 ? key : next(key, [group]));
  const keys = { root: new Uint8Array(32), next, ofGroup };
  const options = { ...where, keys, pageTokens: PAGE_TOKENS, spillAfter };
  return (timer, memory) => new AtRest(options, timer, memory);
}

/** Pages that came with a bundle: those of a shelf. */
export class Parcel implements PagesShipped {
  /** How many were wanted each time, and how fast prefill was said to be. */
  readonly asked: [number, number | null][] = [];
  /** Pages at most that come at once. */
  most = Number.POSITIVE_INFINITY;
  private readonly pages: ReadonlyMap<string, Bytes>;

  constructor({ pages }: Shelf) {
    this.pages = new Map(pages);
  }

  has(key: Bytes): boolean {
    return this.pages.has(hex(key));
  }

  async bring(
    wanted: readonly { readonly key: Bytes }[],
    prefill: number | null,
  ): Promise<readonly Bytes[]> {
    this.asked.push([wanted.length, prefill]);
    const found = wanted.map(({ key }) => this.pages.get(hex(key)));
    const missing = found.indexOf(undefined);
    const there = (missing < 0 ? found : found.slice(0, missing)) as Bytes[];
    return there.slice(0, this.most);
  }
}

/** Timers that go off when they are told to. */
export class Timers {
  private readonly waiting = new Set<() => void>();

  readonly timer = (_: number, call: () => void) => {
    this.waiting.add(call);
    return () => void this.waiting.delete(call);
  };

  /** Let so much time pass that nothing waits any more, or so many timers go off. */
  async pass(most = Number.POSITIVE_INFINITY): Promise<void> {
    await turn();
    for (let done = 0; done < most && this.waiting.size > 0; done++) {
      const [first] = this.waiting;
      if (!first) return;
      this.waiting.delete(first);
      first();
      await turn();
    }
  }
}

/** Turns of the event loop in which all has been done that waits for no timer. */
const TURNS = 40;

/** Timers of a clock that stands still until it is told to go on. */
export class Clock {
  private now = 0;
  private readonly waiting = new Set<{ readonly due: number; readonly call: () => void }>();

  readonly timer = (ms: number, call: () => void) => {
    const one = { due: this.now + ms, call };
    this.waiting.add(one);
    return () => void this.waiting.delete(one);
  };

  /** Let so many milliseconds pass: what is due goes off in its order. */
  async advance(ms: number): Promise<void> {
    const until = this.now + ms;
    for (;;) {
      for (let i = 0; i < TURNS; i++) {
        await turn();
        // Digests are made by threads, which a busy machine may not have let run yet.
        if (i % 4 === 0) await crypto.subtle.digest("SHA-256", new Uint8Array(1));
      }
      const due = [...this.waiting].filter((one) => one.due <= until);
      const first = due.sort((a, b) => a.due - b.due)[0];
      if (!first) break;
      this.now = Math.max(this.now, first.due);
      this.waiting.delete(first);
      first.call();
    }
    this.now = until;
  }
}

function hex(key: Bytes): string {
  return Buffer.from(key).toString("hex");
}
