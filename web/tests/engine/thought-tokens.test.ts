import { describe, expect, it } from "vitest";
import type { Completion } from "../../client/types.ts";
import { CountingReader, thoughtTokens } from "../../engine/thought-tokens.ts";

const TOKENS = ["<think>", "</think>", "a", "b", " ", "wait", ". ", "So", "日"];
const tokenizer = {
  decode: (ids: readonly number[]) => ids.map((id) => TOKENS[id] ?? "").join(""),
};

/** As tests/sdk/hosting/test_thoughts.py has them. */
describe("tokens up to the end of a thought count", () => {
  it.each<[string, readonly string[], number]>([
    ["", ["a", "b"], 0],
    ["a", ["<think>", "a", "</think>", "b"], 2],
    [" a ", ["<think>", " ", "a", " ", "</think>", "b"], 3],
    ["a", ["a", "</think>", "a"], 1],
    ["wait. So", ["<think>", "wait", ". ", "So"], 4],
    ["ab", ["<think>", "a", "</think>", "wait", "<think>", "b", "</think>", "So"], 6],
    ["日", ["<think>", "日", "</think>"], 2],
    ["日日", ["a", "b"], 0],
  ])("%j in %j: %i", (thought, tokens, count) => {
    const ids = tokens.map((token) => TOKENS.indexOf(token));
    expect(thoughtTokens(thought, ids, tokenizer)).toBe(count);
  });
});

describe("an answer", () => {
  const thinking = {
    feed: (text: string) => [{ kind: "reasoning", text } as const],
    end: () => [],
  };
  const completion = { finishReason: "stop", tokenIds: [0, 2, 1, 3] } as unknown as Completion;
  const told = (counting: typeof tokenizer | null) => {
    const reader = new CountingReader(thinking, null, counting);
    reader.push("a");
    return reader.completed(completion);
  };

  it("has the number of its thought's tokens", () => {
    expect(told(tokenizer)).toMatchObject({ reasoning: "a", thoughtTokens: 2 });
  });

  it("does not where nobody counts them", () => {
    expect(told(null)).not.toHaveProperty("thoughtTokens");
  });
});
