/** Pages that are forgotten while they are saved do not come back. */

import { describe, expect, test } from "vitest";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { clearPages } from "../../kv/clearing.ts";
import { PageStore } from "../../kv/page-store.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { makeOrigin } from "../store/origin.ts";
import { making, OTHER, PROMPT, SAVED } from "./idle-engine.ts";
import { restingOn, Shelf } from "./shelf.ts";

describe("pages that are to be forgotten while they are saved", () => {
  /** An engine over a store whose next write waits. */
  async function filling() {
    const files = await FileStore.open(makeOrigin().root);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let writes = 0;
    const store: Store = new Proxy(files, {
      get(target, name) {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== "function") return found;
        if (name !== "write") return found.bind(target);
        return async (...given: unknown[]) => {
          writes += 1;
          if (writes === 3) await held;
          return Reflect.apply(found, target, given);
        };
      },
    });
    const options = { producer: "it", pageBytes: 4 * PAGE_TOKENS, limit: 1 << 20 };
    const pages = await PageStore.open(store, options);
    const made = making(new Shelf(), { engine: { atRest: restingOn({ pages, shipped: null }) } });
    await made.say(PROMPT);
    while (writes < 3) await made.clock.advance(SAVED);
    /** Let all be saved that will be. */
    const save = async () => {
      for (let page = 0; page < 10; page++) {
        await made.clock.advance(SAVED);
        await pages.writable();
      }
    };
    const done = () => {
      release();
      return save();
    };
    return { ...made, files, pages, done, save };
  }

  test("by the engine's own page are not there afterwards, in storage nor in memory", async () => {
    const { engine, pages, files, done, say } = await filling();
    engine.forgetPages();
    const cleared = pages.clear();
    await done();
    await cleared;
    expect([pages.stored.pages, (await files.list()).length]).toEqual([0, 0]);
    expect(engine.stats().pagesCached).toBe(0);
    expect(await say(PROMPT)).toBe(0);
  });

  test("by another page before something else is said: that is kept", async () => {
    const { files, done, say, save } = await filling();
    await done();
    await clearPages(files);
    expect(await say(PROMPT)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(7);
    expect(await say(PROMPT)).toBe(96);
  });

  test("by another page before something short is said: its answer's pages are kept", async () => {
    const { files, done, say, save } = await filling();
    await done();
    await clearPages(files);
    expect(await say(OTHER.slice(0, PAGE_TOKENS - 4), 2 * PAGE_TOKENS)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(2);
  });

  test("by another page are not there either, once the writer has heard of it", async () => {
    const { engine, pages, files, done, say, save } = await filling();
    await clearPages(files);
    await done();
    expect([pages.stored.pages, (await files.list()).length]).toEqual([0, 0]);
    expect(engine.stats().pagesCached).toBe(0);
    expect(await say(OTHER)).toBe(0);
    await save();
    expect((await files.list()).length).toBe(4); // of what was said since
  });
});
