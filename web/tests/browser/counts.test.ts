import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";
import { takeCounts } from "./worker-patch.ts";

let session: Session;
let page: Page;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
  // However slow the machine is: by default bursts are as long as time allows.
  const loaded = await page.evaluate(() =>
    library.load("demo", "/bundles/demo-q4/", { maxBurst: 8 }),
  );
  expect(loaded).toHaveProperty("value");
});
afterAll(() => session?.close());

const generate = (maxTokens: number) =>
  page.evaluate(
    (maxTokens) =>
      library.generate("demo", "Once upon a time", { maxTokens, temperature: 0, ignoreEos: true }),
    maxTokens,
  );

it("makes nothing on the device once it is loaded, and reads once a submit at most", async () => {
  await generate(4);
  await takeCounts(page);
  await generate(64);
  const counts = await takeCounts(page);
  expect(counts.created).toBe(0);
  expect(counts.mapped).toBeLessThanOrEqual(counts.submits);
});

it("submits once a burst: many tokens by few submits", async () => {
  await takeCounts(page);
  const before = await page.evaluate(() => library.stats("demo"));
  await generate(64);
  const after = await page.evaluate(() => library.stats("demo"));
  const counts = await takeCounts(page);
  // Bursts of 1, 2, 4 and then 8; a prompt takes a few submits, and one burst may run in vain.
  expect(counts.submits - counts.nudges).toBeLessThanOrEqual(4 + 3 + Math.ceil(64 / 8) + 2);
  expect(after.submits - before.submits).toBe(counts.submits);
  expect(after.buffers + after.bindGroups + after.pipelines).toBe(
    before.buffers + before.bindGroups + before.pipelines,
  );
});

it("keeps a conversation's pages: asked again, most of the prompt is there", async () => {
  const prompt = Array.from({ length: 70 }, (_, i) => 100 + i);
  const ask = () =>
    page.evaluate(
      (prompt) => library.generate("demo", prompt, { maxTokens: 2, temperature: 0 }),
      prompt,
    );
  const first = await ask();
  const second = await ask();
  expect(first).toMatchObject({ value: { cachedTokens: 0 } });
  expect(second).toMatchObject({ value: { cachedTokens: 64 } });
});

it("begins with few pages on a small device, makes more in time, and says the same", async () => {
  const prompts = [1, 2, 3].map((seed) =>
    Array.from({ length: 690 }, (_, i) => 100 + ((seed * 7 + i * i) % 900)),
  );
  const say = async (on: Page, prompts: readonly (readonly number[])[]) => {
    const options = { maxTokens: 100, temperature: 0, ignoreEos: true };
    const answers = await on.evaluate(
      ({ prompts, options }) =>
        Promise.all(prompts.map((one) => library.generate("demo", one, options))),
      { prompts, options },
    );
    return answers.map((answer) => ("value" in answer ? answer.value.tokenIds : answer.error));
  };
  const small = await session.page({ limits: { maxBufferSize: 512 << 20 } });
  await small.goto(`${session.proxy.url}/test/library.html`);
  await small.waitForFunction(() => "library" in globalThis);
  // Bursts of one: the first prompt is not done before the last is read, however slow that is.
  await small.evaluate(() => library.load("demo", "/bundles/demo-q4/", { maxBurst: 1 }));
  const { pages, memory } = await small.evaluate(() => library.info("demo"));
  expect(16 * pages).toBe(2048); // tokens; the prompts alone have 2,070
  const said = await say(small, prompts);
  const stats = await small.evaluate(() => library.stats("demo"));
  expect(stats).toMatchObject({ pages: 1.5 * pages, growths: 1 });
  // Beside what there is now, a quarter of the old pages was held at most.
  expect(stats.peakBytes - stats.bytes).toBeLessThan(0.3 * memory.state);
  await small.close();

  expect(said.slice(-1)).toEqual(await say(page, prompts.slice(-1)));
  expect(await page.evaluate(() => library.stats("demo"))).toMatchObject({ growths: 0 });
});
