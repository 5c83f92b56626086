import { describe, expect, it } from "vitest";
import { factsOf } from "../../chat/components/engine-stats.tsx";
import type { EngineStats } from "../../client/types.ts";

const STATS = {
  bytes: 26_400_000,
  peakBytes: 30_000_000,
  pages: 64,
  pagesFree: 60,
  pagesCached: 3,
  pagesKept: 1200,
  pagesKeptBytes: 5e6,
  prefixQueriedTokens: 0,
  prefixHitTokens: 0,
  prefixBundleTokens: 0,
  deviceLosses: 0,
} as EngineStats;

describe("what a model takes", () => {
  it("is said in words: memory, pages, what was found again", () => {
    const facts = factsOf({ ...STATS, prefixQueriedTokens: 1500, prefixHitTokens: 1000 });
    expect(Object.fromEntries(facts)).toEqual({
      "Memory of the GPU now": "26.4 MB, 30.0 MB at most so far",
      Pages: "4 of 64 hold text, 3 to be found again",
      "Found again": "67 % of 1,500 tokens",
      "Pages in storage": "1,200, 5.0 MB",
    });
  });

  it("has no part of nothing, and tells losses where there were some", () => {
    const shipped = factsOf({ ...STATS, prefixBundleTokens: 2048 });
    expect(Object.fromEntries(shipped)["Came with the model"]).toBe("2,048 tokens of those");
    expect(Object.fromEntries(factsOf({ ...STATS, deviceLosses: 2 }))).toMatchObject({
      "Found again": "nothing was read yet",
      "Times the GPU was lost": "2",
    });
  });
});
