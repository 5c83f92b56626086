import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const QUESTION = "Hello! Who are you?";
const BUNDLE = "/bundles/demo-q4/";

let session: Session;
let page: Page;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
});
afterAll(() => session?.close());

it("a page that was written for WebLLM gets its answers here, in chunks and whole", async () => {
  const said = await page.evaluate((q) => library.doors.asWebLLM("demo-q4", q), QUESTION);
  expect(said.reply.length).toBeGreaterThan(0);
  expect(said.whole).toBe(said.reply);
  expect(said.usage).toBeGreaterThan(0);
  expect(said.json).toEqual({ kind: expect.any(Boolean) });
  expect(said.progress.at(-1)).toBe(1);
  expect(said.progress).toEqual([...said.progress].sort((a, b) => a - b));
});

it("a page that was written for the Prompt API has sessions here", async () => {
  const said = await page.evaluate(([url, q]) => library.doors.asPromptApi(url, q), [
    BUNDLE,
    QUESTION,
  ] as const);
  expect(said.availability).toEqual(["downloadable", "available"]);
  const parts = said.progress.map(([loaded]) => loaded);
  expect(parts.at(0)).toBe(0);
  expect(parts.at(-1)).toBe(1);
  expect(parts).toEqual([...parts].sort((a, b) => a - b));
  expect(said.progress.every(([, total]) => total === 1)).toBe(true);
  expect(said.pieces.length).toBeGreaterThan(1);
  expect(said.whole).toBe(said.pieces.join(""));
  const [begun = 0, measured = 0, usage = 0, window = 0] = said.usage;
  expect(begun).toBeGreaterThan(0);
  expect(measured).toBeGreaterThan(0);
  expect(usage).toBeGreaterThan(begun);
  expect(usage).toBeLessThanOrEqual(window);
  expect(said.word).toMatch(/^(?:yes|no)$/);
  expect(said.json).toEqual({ kind: expect.any(Boolean) });
  expect(said.rest).not.toContain("1+1");
  expect(said.dropped).toBeGreaterThan(0);
  expect(said.after).toBe(true);
  expect(said.exceeded).toMatchObject({ name: "QuotaExceededError", more: true });
});

it("a page that was written for the AI SDK streams text, and aborts it", async () => {
  const said = await page.evaluate(([url, q]) => library.doors.asAiSdk(url, q), [
    BUNDLE,
    QUESTION,
  ] as const);
  expect(said.pieces.length).toBeGreaterThan(1);
  expect(said.pieces.join("")).toBe(said.again);
  expect(said.outputTokens).toBeGreaterThan(0);
  expect(said.last).toBe("abort");
});

it("none of them asks for what the page's policy forbids", () => {
  expect(session.complaints.filter((text) => /policy/i.test(text))).toEqual([]);
});
