import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

let session: Session;
let page: Page;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
});
afterAll(() => session?.close());

it("a page that was written for WebLLM gets its answers here, in chunks and whole", async () => {
  const said = await page.evaluate(() => library.asWebLLM("demo-q4", "Hello! Who are you?"));
  expect(said.reply.length).toBeGreaterThan(0);
  expect(said.whole).toBe(said.reply);
  expect(said.usage).toBeGreaterThan(0);
  expect(said.progress.at(-1)).toBe(1);
  expect(said.progress).toEqual([...said.progress].sort((a, b) => a - b));
});
