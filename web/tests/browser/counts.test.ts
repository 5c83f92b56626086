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
  const loaded = await page.evaluate(() => library.load("demo", "/bundles/demo-q4/", {}));
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
  // Bursts of 1, 2, 4 and 8 at most; a prompt takes a few submits, and one burst may run in vain.
  expect(counts.submits).toBeLessThanOrEqual(4 + 3 + Math.ceil(64 / 8) + 2);
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
