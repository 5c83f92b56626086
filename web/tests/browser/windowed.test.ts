/**
 * A model with windows, whose layers are two state groups: it says what Python's engine says, and gives back the pages
 * that lie behind its window.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import type { LoadOptions } from "../../client/types.ts";
import { asking, compare } from "./comparing.ts";
import { FLOAT32, readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "windowed-q4";
/** The same, with the pages of how prompts begin. */
const PACKED = "windowed-packed-q4";
/** As tests/browser/bundles.py has it. */
const BEGINNING = "Of all that was said before, a layer with a window sees the end. ".repeat(3);
const PROGRAM = "webgpu-f32";

const PAGE_TOKENS = 16;
/** As tests/parity/cases.py has it. */
const WINDOW = 40;
/** Tokens of a burst where the browser is not late. */
const BURST = 8;

let session: Session;
let page: Page;
const { prompts, programs } = readExpected().windowed;

/** A new page of the origin, or of another, with the model in it. */
async function open(where = session, options: Partial<LoadOptions> = {}, bundle = BUNDLE) {
  const made = await where.library();
  const loaded = await made.evaluate(
    ({ bundle, ...options }) =>
      library.load("windowed", `/bundles/${bundle}/`, { ...options, trace: true }),
    { bundle, program: PROGRAM, ...options },
  );
  expect(loaded).toMatchObject({ value: { program: PROGRAM } });
  return made;
}

/** The most pages that sequences ever held at once. */
async function used(where: Page): Promise<number> {
  const { traceEvents } = await where.evaluate(() => library.trace("windowed"));
  const counts = traceEvents.filter(({ name }) => name === "kv pages");
  return Math.max(...counts.map(({ args }) => Number(Reflect.get(args ?? {}, "used"))));
}

/** What it says to prompts, all at once. */
function answers(where: Page, prompts: readonly (string | readonly number[])[], maxTokens: number) {
  return where.evaluate(
    ({ prompts, maxTokens }) =>
      Promise.all(
        prompts.map(async (prompt) => {
          const options = { maxTokens, temperature: 0, ignoreEos: true };
          const said = await library.generate("windowed", prompt, options);
          if ("error" in said) throw new Error(said.error.message);
          return { ids: said.value.tokenIds, cached: said.value.cachedTokens };
        }),
      ),
    { prompts, maxTokens },
  );
}

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await open();
});
afterAll(() => session?.close());

it("says what Python's engine says on the same adapter, but for near ties", async () => {
  const python = programs[PROGRAM];
  if (!python) throw new Error(`nothing expected of ${PROGRAM}`);
  const compared = await compare(asking(page, "windowed"), prompts, python, FLOAT32);
  expect(compared.wrong).toEqual([]);
  expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
});

it("goes on from the pages of all its groups as from the beginning", async () => {
  const said = await page.evaluate(async (prompts) => {
    const prompt = [...(prompts.at(-1) ?? [])].reverse(); // nobody has asked it before
    const options = { maxTokens: 24, temperature: 0, ignoreEos: true, logprobs: true, n: 1 };
    const asked = [];
    for (let nth = 0; nth < 2; nth++) {
      const [one] = await library.choices("windowed", prompt, options);
      asked.push({ ids: one?.tokenIds, cached: one?.usage.cachedTokens });
    }
    return asked;
  }, prompts);
  const [cold, warm] = said;
  expect([cold?.cached, warm?.cached]).toEqual([0, 96]);
  expect(warm?.ids).toEqual(cold?.ids);
});

it("gives back what lies behind the window, and answers many at once as each alone", async () => {
  const { slots } = await page.evaluate(() => library.info("windowed"));
  const asked = Array.from({ length: slots }, (_, nth) =>
    Array.from({ length: 40 + nth }, (_, at) => 10 + ((at * (nth + 3)) % 280)),
  );
  const [said, all] = [120, Math.floor((40 + 120) / PAGE_TOKENS)];
  const fresh = await open();
  const alone = await answers(fresh, asked.slice(0, 1), said);
  // Of the second group there were never more than the window, a chunk and the bursts under way touch.
  const most = all + Math.ceil((WINDOW + 40 + 2 * BURST) / PAGE_TOKENS) + 1;
  expect(await used(fresh)).toBeLessThanOrEqual(most);
  expect(most).toBeLessThan(2 * all);
  // Others take the room of what was given back, before they answer the same.
  const others = asked.map((one) => one.with(0, 11));
  for (const { cached } of await answers(page, others, said)) expect(cached).toBe(0);
  const together = await answers(page, asked, said);
  expect(together[0]?.ids).toEqual(alone[0]?.ids);
  const { pages, pagesFree, pagesCached } = await page.evaluate(() => library.stats("windowed"));
  expect(pagesFree + pagesCached).toBe(pages);
  await fresh.close();
});

it("goes on after a reload from the pages that its window needs", async () => {
  const visit = await openSession("lavapipe");
  try {
    const prompt = Array.from({ length: 120 }, (_, at) => 10 + ((at * at) % 280));
    const before = await open(visit, { keepPages: 1 << 24 });
    const [cold] = await answers(before, [prompt], 24);
    const saved = () => before.evaluate(async () => (await library.stats("windowed")).pagesSaved);
    // Of 143 tokens all full pages of both groups: nobody has needed the room of those behind the window.
    await expect.poll(saved, { interval: 100, timeout: WAIT.timeout }).toBe(2 * 8);
    await before.close();
    const after = await open(visit, { keepPages: 1 << 24 });
    const [restored] = await answers(after, [prompt], 24);
    expect(cold?.cached).toBe(0);
    expect(restored).toEqual({ ids: cold?.ids, cached: 112 });
    // All 7 pages of one group, and of the other those from token 73 on.
    const { pagesRestored } = await after.evaluate(() => library.stats("windowed"));
    expect(pagesRestored).toBe(7 + 3);
  } finally {
    await visit.close();
  }
});

it("begins with the pages of all its groups that its bundle ships", async () => {
  const index = join(inject("bundles"), PACKED, "prefixes", "webgpu-f32", "index.json");
  const { version, packs } = JSON.parse(readFileSync(index, "utf8"));
  expect(version).toBe(2);
  const pages: number = packs[0].keys.length;
  const tokens = pages * PAGE_TOKENS;
  const behind = Math.floor((tokens - WINDOW + 1) / PAGE_TOKENS);
  expect(behind).toBeGreaterThan(1);

  const prompt = `${BEGINNING}What is behind it?`;
  const visit = await openSession("lavapipe");
  try {
    const first = await open(visit, { prefixPacks: "always" }, PACKED);
    const [shipped] = await answers(first, [prompt], 24);
    const { prefixBundleTokens } = await first.evaluate(() => library.stats("windowed"));
    expect([shipped?.cached, prefixBundleTokens]).toEqual([tokens, tokens]);
    // All of one group, and of the other what the first token sees that follows.
    const fetched = visit.proxy.fetched.filter(({ path }) => path.endsWith(".kv"));
    expect(fetched).toHaveLength(pages + pages - behind);
    await first.close();

    const second = await open(visit, { prefixPacks: false }, PACKED);
    const [computed] = await answers(second, [prompt], 24);
    expect(computed).toEqual({ ids: shipped?.ids, cached: 0 });
  } finally {
    await visit.close();
  }
});
