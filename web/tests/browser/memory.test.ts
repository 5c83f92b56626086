import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launch, type RunningBrowser } from "./launch.ts";
import type {} from "./pages/library.ts";
import { renderersOf } from "./processes.ts";
import { openSession, type Session } from "./session.ts";

const PIECE = 32 << 20;

let browser: RunningBrowser;
let session: Session;
let page: Page;

beforeAll(async () => {
  browser = await launch("lavapipe"); // no renderer in it has had anything else in its memory
  session = await openSession(browser);
  page = await session.library();
});
afterAll(async () => {
  await session?.close();
  await browser?.close();
});

it("loads 200 MB of weights holding two pieces of a file at most", async () => {
  const before = renderers();
  const loaded = await page.evaluate(() => library.load("wide", "/bundles/wide-f16/", {}));
  expect(loaded).toMatchObject({ value: { name: "wide-f16" } });
  if (!("value" in loaded)) throw new Error(loaded.error.message);
  const weights = loaded.value.memory.param;
  expect(weights).toBeGreaterThan(180e6);
  const stats = await page.evaluate(() => library.stats("wide"));
  expect(stats.loaderPeakBytes).toBeGreaterThan(PIECE);
  expect(stats.loaderPeakBytes).toBeLessThanOrEqual(2 * PIECE);
  // The browser has copies of its own: what is hashed, on its way to the GPU, or not collected yet.
  // Two runs saw 231 and 260 MB; had the weights been kept, they would come on top.
  const after = renderers();
  expect(after.peak - before.peak).toBeLessThan(weights + 128e6);
  expect(after.resident - before.resident).toBeLessThan(3 * PIECE);
});

it("fetches a file of several pieces by ranges, each piece once", async () => {
  const embedding = session.proxy.fetched.filter(({ status }) => status === 206);
  const ranges = embedding.map(({ path, range }) => `${path} ${range}`);
  expect(ranges.length).toBeGreaterThan(1);
  expect(new Set(ranges).size).toBe(ranges.length);
});

interface Memory {
  /** Bytes in memory now, and the most there ever were. */
  readonly resident: number;
  readonly peak: number;
}

/** The largest renderer of this browser, by the kernel's own count. */
function renderers(): Memory {
  const all = renderersOf(browser).map(memoryOf);
  return {
    resident: Math.max(...all.map(({ resident }) => resident)),
    peak: Math.max(...all.map(({ peak }) => peak)),
  };
}

function memoryOf(pid: number): Memory {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const bytes = (key: string) =>
      1024 * Number(new RegExp(`^${key}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0);
    return { resident: bytes("VmRSS"), peak: bytes("VmHWM") };
  } catch {
    return { resident: 0, peak: 0 }; // it has ended
  }
}
