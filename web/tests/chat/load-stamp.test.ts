/** A page that ended while a model was loading knows it the next time. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { interruptedLoad, lessContext, stamped } from "../../chat/load-stamp.ts";

const URL = "/bundles/demo/";
const never = () => new Promise<never>(() => {});

let page: EventTarget;

beforeEach(() => {
  page = new EventTarget();
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
  for (const name of ["addEventListener", "removeEventListener"] as const) {
    vi.stubGlobal(name, page[name].bind(page));
  }
});
afterEach(() => vi.unstubAllGlobals());

/** Locks of which somebody holds those of these names, and that are given to who asks. */
function locks(held: readonly string[]): void {
  vi.stubGlobal("navigator", {
    locks: {
      request: (_: string, __: unknown, run: () => unknown) => run(),
      query: async () => ({ held: held.map((name) => ({ name })) }),
    },
  });
}

describe("a load", () => {
  test("that the page did not survive is known", async () => {
    void stamped(URL, never);
    expect(await interruptedLoad()).toBe(URL);
  });

  test("that goes on in another tab is no crash", async () => {
    locks(["edgewise.loading"]);
    void stamped(URL, never);
    expect(await interruptedLoad()).toBeNull();
    locks(["something else"]);
    expect(await interruptedLoad()).toBe(URL);
  });

  test("leaves nothing behind, however it ends", async () => {
    expect(await stamped(URL, async () => 5)).toBe(5);
    expect(await interruptedLoad()).toBeNull();
    await expect(stamped(URL, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await interruptedLoad()).toBeNull();
  });

  test("that a person leaves is no crash", async () => {
    void stamped(URL, never);
    page.dispatchEvent(new Event("pagehide"));
    expect(await interruptedLoad()).toBeNull();
  });

  test("that another one replaced does not take away its stamp", async () => {
    let end = () => {};
    const first = stamped("/bundles/first/", () => new Promise<void>((done) => (end = done)));
    void stamped(URL, never);
    end();
    await first;
    expect(await interruptedLoad()).toBe(URL);
  });
});

test.each([
  [4096, 1024],
  [512, 512],
])("of a context of %i, %i tokens are less", (context, less) => {
  expect(lessContext({ context })).toBe(less);
});
