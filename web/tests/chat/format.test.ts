import { describe, expect, it } from "vitest";
import { answerDetails, bytes, duration, rate, Speed } from "../../chat/format.ts";

describe("numbers for people", () => {
  it.each([
    [0, "0 bytes"],
    [999, "999 bytes"],
    [999_999, "1.0 MB"],
    [99_960, "100 KB"],
    [1000, "1.0 KB"],
    [3_365_626, "3.4 MB"],
    [250e6, "250 MB"],
    [4.2e9, "4.2 GB"],
  ])("%d bytes are %s", (count, text) => {
    expect(bytes(count)).toBe(text);
  });

  it("have as many digits as they mean", () => {
    expect([rate(8.92), rate(33.4)]).toEqual(["8.9 tokens/s", "33 tokens/s"]);
    expect([duration(135.2), duration(4301)]).toEqual(["135 ms", "4.3 s"]);
    expect([duration(999.7), duration(42_400), duration(600_000)]).toEqual([
      "1.0 s",
      "42 s",
      "10 min",
    ]);
  });
});

describe("a speed", () => {
  it("is unknown at first, then what was gained over what it took", () => {
    const speed = new Speed();
    expect(speed.add(0, 0)).toBe(0);
    expect(speed.add(500, 500)).toBe(1000);
  });

  it("forgets what is long ago", () => {
    const speed = new Speed(1000);
    speed.add(0, 0);
    speed.add(0, 10_000);
    expect(speed.add(2000, 10_500)).toBe(4000);
    expect(speed.add(2000, 12_000)).toBe(0);
  });
});

describe("what an answer took", () => {
  const stats = {
    ttftMs: 135,
    tokensPerSecond: 33.4,
    tokens: 20,
    promptTokens: 48,
    cachedTokens: 0,
    finish: "stop",
    contextFull: false,
    context: 1024,
    droppedTurns: 0,
  } as const;

  it("is its speed, when its first token came, and its prompt", () => {
    expect(answerDetails(stats)).toBe("33 tokens/s · first token 135 ms · 48 prompt tokens");
  });

  it("says what of the prompt was there already, and why it ended early", () => {
    const details = answerDetails({ ...stats, cachedTokens: 16, finish: "cancelled" });
    expect(details).toContain("16 of 48 prompt tokens cached · stopped");
    expect(answerDetails({ ...stats, finish: "length" })).toMatch(/ended at the length limit$/);
    const full = answerDetails({ ...stats, finish: "length", contextFull: true });
    expect(full).toMatch(/ended where the context does$/);
  });

  it("has no speed where there was one token", () => {
    expect(answerDetails({ ...stats, tokensPerSecond: 0 })).toMatch(/^first token/);
  });
});
