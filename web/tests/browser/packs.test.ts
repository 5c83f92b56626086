import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import type { LoadOptions } from "../../client/types.ts";
import { FULL } from "../suite.ts";
import type { AdapterName } from "./launch.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "/bundles/packed-q4/";
const PAGE_TOKENS = 16;
/** As tests/browser/bundles.py has it. */
const SYSTEM = "You answer in one word. You never explain, and you never ask. ".repeat(12);
const MESSAGES = [
  { role: "system", content: SYSTEM },
  { role: "user", content: "What does a page hold?" },
];
const ADAPTERS: readonly AdapterName[] = ["lavapipe", "swiftshader"];

interface Packs {
  readonly packs: readonly { readonly keys: readonly string[] }[];
}

/** The keys of the pages that a program of this arithmetic finds. */
function keysOf(arithmetic: string): readonly string[] {
  const folder = join(inject("bundles"), "packed-q4", "prefixes", `webgpu-${arithmetic}`);
  const { packs }: Packs = JSON.parse(readFileSync(join(folder, "index.json"), "utf8"));
  return packs[0]?.keys ?? [];
}

describe.each(ADAPTERS)("a bundle with a pack, on %s", (adapter) => {
  const sessions: Session[] = [];
  let computed: Awaited<ReturnType<typeof answer>>;
  let keys: readonly string[];

  /** A browser that was never here. */
  async function visitor(): Promise<Session> {
    const session = await openSession(adapter);
    sessions.push(session);
    return session;
  }

  async function open(session: Session, options: LoadOptions): Promise<Page> {
    const page = await session.library();
    const loaded = await page.evaluate(([url, options]) => library.load("it", url, options), [
      BUNDLE,
      options,
    ] as const);
    expect(loaded).toHaveProperty("value");
    return page;
  }

  async function answer(page: Page) {
    const before = await page.evaluate(() => library.stats("it"));
    const found = await page.evaluate(
      (messages) =>
        library.chat("it", messages, { maxTokens: 24, temperature: 0, ignoreEos: true }),
      MESSAGES,
    );
    if (!("value" in found)) throw new Error(found.error.message);
    const after = await page.evaluate(() => library.stats("it"));
    const { tokenIds, usage } = found.value.completion;
    return {
      tokenIds,
      cached: usage.cachedTokens,
      ofBundle: after.prefixBundleTokens - before.prefixBundleTokens,
      dispatches: after.dispatches - before.dispatches,
    };
  }

  const fetched = ({ proxy }: Session) =>
    proxy.fetched.map(({ path }) => path).filter((path) => path.endsWith(".kv"));

  beforeAll(async () => {
    const session = await visitor();
    const page = await open(session, { prefixPacks: false });
    const { program } = await page.evaluate(() => library.info("it"));
    keys = keysOf(/^webgpu-([^-]+)/.exec(program)?.[1] ?? "");
    computed = await answer(page);
    expect(fetched(session)).toEqual([]);
    expect(keys.length).toBeGreaterThan(8); // more than come at once
  });
  afterAll(async () => {
    for (const session of sessions) await session.close();
  });

  it("answers the first prompt of a first visit from it, and nothing is fetched twice", async () => {
    const session = await visitor();
    const first = await answer(await open(session, { prefixPacks: "always" }));
    const tokens = keys.length * PAGE_TOKENS;
    expect([computed.cached, computed.ofBundle]).toEqual([0, 0]);
    expect([first.cached, first.ofBundle]).toEqual([tokens, tokens]);
    expect(first.tokenIds).toEqual(computed.tokenIds);
    expect(first.dispatches).toBeLessThan(computed.dispatches);
    expect(fetched(session)).toHaveLength(keys.length);
    // The next visit has it from the store.
    const second = await answer(await open(session, { prefixPacks: "always" }));
    expect(second).toEqual(first);
    expect(fetched(session)).toHaveLength(keys.length);
  });

  if (adapter !== "lavapipe" && !FULL) return; // where everything takes long

  it("says the same where a page came otherwise than it was made", async () => {
    const session = await visitor();
    session.proxy.fault = (path) =>
      path.endsWith(`${keys[3]}.kv`) ? { kind: "flip", at: 20_000 } : null;
    const found = await answer(await open(session, { prefixPacks: "always" }));
    expect(found.tokenIds).toEqual(computed.tokenIds);
    expect([found.cached, found.ofBundle]).toEqual([3 * PAGE_TOKENS, 3 * PAGE_TOKENS]);
  });

  it("waits for no page that does not come", async () => {
    const session = await visitor();
    let come = () => {};
    const until = new Promise<void>((resolve) => {
      come = resolve;
    });
    session.proxy.fault = (path) => (path.endsWith(".kv") ? { kind: "wait", until } : null);
    const found = await answer(await open(session, {}));
    expect(found.tokenIds).toEqual(computed.tokenIds);
    expect([found.cached, found.ofBundle]).toEqual([0, 0]);
    come();
  });

  if (adapter !== "lavapipe") return; // what follows is the same everywhere

  it("is refused where its index is not the one that it lists", async () => {
    const session = await visitor();
    session.proxy.fault = (path) => (path.endsWith("/index.json") ? { kind: "flip", at: 9 } : null);
    const page = await session.library();
    const refused = await page.evaluate((url) => library.load("it", url, {}), BUNDLE);
    expect(refused).toMatchObject({ error: { code: "bundle.checksum" } });
  });

  it("is a model without packs where the host does not have them", async () => {
    const session = await visitor();
    session.proxy.fault = (path) =>
      path.endsWith("/index.json") ? { kind: "cut", after: 9 } : null;
    const page = await open(session, {});
    expect(await page.evaluate(() => library.heard)).toContain("load.packs");
    const found = await answer(page);
    expect([found.tokenIds, found.ofBundle]).toEqual([computed.tokenIds, 0]);
  });
});
