import { readdirSync, readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const PIECE = 32 << 20;

let session: Session;
let page: Page;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
});
afterAll(() => session?.close());

it("loads 200 MB of weights holding two pieces of a file at most", async () => {
  const before = peakOfRenderers();
  const loaded = await page.evaluate(() => library.load("wide", "/bundles/wide-f16/", {}));
  expect(loaded).toMatchObject({ value: { name: "wide-f16" } });
  if (!("value" in loaded)) throw new Error(loaded.error.message);
  expect(loaded.value.memory.param).toBeGreaterThan(180e6);
  const stats = await page.evaluate(() => library.stats("wide"));
  expect(stats.loaderPeakBytes).toBeGreaterThan(PIECE);
  expect(stats.loaderPeakBytes).toBeLessThanOrEqual(2 * PIECE);
  // What the loader holds, as much again on the way to the GPU's process, and the engine itself.
  expect(peakOfRenderers() - before).toBeLessThan(4 * PIECE + 64e6);
});

it("fetches a file of several pieces by ranges, each piece once", async () => {
  const embedding = session.proxy.fetched.filter(({ status }) => status === 206);
  const ranges = embedding.map(({ path, range }) => `${path} ${range}`);
  expect(ranges.length).toBeGreaterThan(1);
  expect(new Set(ranges).size).toBe(ranges.length);
});

/** Most bytes any renderer of this browser has had in memory, by the kernel's own count. */
function peakOfRenderers(): number {
  const peaks = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(peakOf);
  return Math.max(0, ...peaks);
}

function peakOf(pid: string): number {
  try {
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    if (!command.includes("--type=renderer") || !command.includes(session.browser.profile))
      return 0;
    const kib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return Number(kib ?? 0) * 1024;
  } catch {
    return 0; // it has ended
  }
}
