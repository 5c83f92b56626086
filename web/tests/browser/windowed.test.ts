/**
 * A model with windows, whose layers are two state groups: it says what Python's engine says, and gives back the pages
 * that lie behind its window.
 */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { asking, compare } from "./comparing.ts";
import { FLOAT32, readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "windowed-q4";
const PROGRAM = "webgpu-f32";

const PAGE_TOKENS = 16;
/** As tests/parity/cases.py has it. */
const WINDOW = 40;
/** Tokens of a burst where the browser is not late. */
const BURST = 8;

let session: Session;
let page: Page;
const { prompts, programs } = readExpected().windowed;

/** A new page of the origin with the model in it. */
async function open(): Promise<Page> {
  const made = await session.library();
  const loaded = await made.evaluate(
    ({ bundle, program }) =>
      library.load("windowed", `/bundles/${bundle}/`, { program, trace: true }),
    { bundle: BUNDLE, program: PROGRAM },
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
function answers(where: Page, prompts: readonly (readonly number[])[], maxTokens: number) {
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
  const { context, slots } = await page.evaluate(() => library.info("windowed"));
  const all = context / PAGE_TOKENS;
  const asked = Array.from({ length: slots }, (_, nth) =>
    Array.from({ length: 40 + nth }, (_, at) => 10 + ((at * (nth + 3)) % 280)),
  );
  const rest = context - 40 - slots;
  const fresh = await open();
  const alone = await answers(fresh, asked.slice(0, 1), rest);
  // Of the second group there were never more than the window, a chunk and the bursts under way touch.
  const most = all + Math.ceil((WINDOW + 40 + 2 * BURST) / PAGE_TOKENS) + 1;
  expect(await used(fresh)).toBeLessThanOrEqual(most);
  expect(most).toBeLessThan(2 * all);
  // Pages that were given back have the room of others: twice as many go through them as there are.
  for (let round = 0; round < 2; round++) {
    const together = await answers(
      page,
      asked.map((one) => one.with(0, 11 + round)),
      rest,
    );
    expect(new Set(together.map(({ cached }) => cached))).toEqual(new Set([0]));
  }
  const together = await answers(page, asked, rest);
  expect(together[0]?.ids).toEqual(alone[0]?.ids);
  expect(await used(page)).toBeLessThanOrEqual(slots * most);
  const { pages, pagesFree, pagesCached } = await page.evaluate(() => library.stats("windowed"));
  expect(pagesFree + pagesCached).toBe(pages);
  await fresh.close();
});

it("goes on after a reload from the pages that its window needs", async () => {
  const prompt = Array.from({ length: 120 }, (_, at) => 10 + ((at * at) % 280));
  const [cold] = await answers(page, [prompt], 24);
  const saved = () => page.evaluate(async () => (await library.stats("windowed")).pagesSaved);
  let before = -1;
  const settled = async () => {
    const now = await saved();
    const same = now > 0 && now === before;
    before = now;
    return same;
  };
  await expect.poll(settled, { interval: 2000, timeout: WAIT.timeout }).toBe(true);
  await page.close();
  page = await open();
  const [restored] = await answers(page, [prompt], 24);
  expect(restored).toEqual({ ids: cold?.ids, cached: 112 });
  // All 7 pages of one group, and of the other those from token 73 on.
  const { pagesRestored } = await page.evaluate(() => library.stats("windowed"));
  expect([cold?.cached, pagesRestored]).toEqual([0, 7 + 3]);
});
