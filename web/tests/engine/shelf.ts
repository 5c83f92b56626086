/** Pages kept by their keys in a test's memory, and a clock that stands still. */

import { createHash } from "node:crypto";
import { AtRest, type PagesAtRest } from "../../engine/at-rest.ts";
import type { EngineOptions } from "../../engine/engine.ts";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { turn } from "./support.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export class Shelf implements PagesAtRest {
  readonly pages = new Map<string, Bytes>();
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
    return this.pages.get(hex(key))?.slice() ?? null;
  }

  async writable(): Promise<boolean> {
    return true;
  }

  async put(key: Bytes, data: Bytes): Promise<boolean> {
    await this.arrive();
    this.pages.set(hex(key), data.slice());
    return true;
  }

  async has(key: Bytes): Promise<boolean> {
    await this.arrive();
    return this.pages.has(hex(key));
  }

  /** What an engine needs to keep its pages here. */
  get keeping(): NonNullable<EngineOptions["atRest"]> {
    const next = async (before: Bytes, tokens: readonly number[]) =>
      new Uint8Array(createHash("sha256").update(before).update(tokens.join()).digest());
    const keys = { root: new Uint8Array(32), next };
    const options = { pages: this, keys, pageTokens: PAGE_TOKENS };
    return (timer, memory) => new AtRest(options, timer, memory);
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

function hex(key: Bytes): string {
  return Buffer.from(key).toString("hex");
}
