/** An answer that goes on from tokens: one text, as if it had never been cut off. */

import { describe, expect, it } from "vitest";
import { Detokenizer } from "../../engine/detokenize.ts";
import { samplingParams } from "../../engine/sampling.ts";
import { Sequence } from "../../engine/sequence.ts";

/** Tokens that are bytes, spelled as byte-level vocabularies do. */
const SPELLED = ["H", "i", "Ġ", "Ã", "©", "!"];
const END = 9;
const tokenizer = {
  stream: () =>
    new Detokenizer({ tokenOf: (id) => SPELLED[id], decoder: { type: "ByteLevel" } }, new Set()),
};

function sequence(begun: readonly number[], options: Parameters<typeof samplingParams>[1] = {}) {
  const prompt = [7, 8, ...begun];
  const request = { prompt, params: samplingParams({}, options), begun: begun.length };
  return new Sequence(request, { tokenizer, eos: [END], context: 12, clock: () => 0 });
}

async function textOf(one: Sequence): Promise<string> {
  let text = "";
  for await (const piece of one.pieces) text += piece;
  return text;
}

describe("an answer that goes on", () => {
  it("says what it went on from first, before the device has done anything", async () => {
    const one = sequence([0, 1]);
    const { value } = await one.pieces[Symbol.asyncIterator]().next();
    expect(value).toBe("Hi");
  });

  it("completes the character that the limit cut in half", async () => {
    const cut = sequence([], { maxTokens: 4 });
    cut.accept([0, 1, 2, 3]);
    expect(await textOf(cut)).toBe("Hi \ufffd");
    const { tokenIds } = await cut.completion;
    const on = sequence(tokenIds);
    on.accept([4, 5, END]);
    expect(await textOf(on)).toBe("Hi é!");
    expect(await on.completion).toMatchObject({
      text: "Hi é!",
      tokenIds: [0, 1, 2, 3, 4, 5, END],
      finishReason: "stop",
      usage: { promptTokens: 6, completionTokens: 3 },
    });
  });

  it("ends at a stop string that began before it was cut off", async () => {
    const one = sequence([0], { stop: "Hi" });
    one.accept([1, 5]);
    expect(await textOf(one)).toBe("");
    expect((await one.completion).finishReason).toBe("stop");
  });

  it("has as many tokens more as it may, and says where the context ends it", async () => {
    const limited = sequence([0, 1], { maxTokens: 2 });
    limited.accept([5, 5, 5]);
    expect(await limited.completion).toMatchObject({ text: "Hi!!", contextFull: false });
    const full = sequence([0, 1], { maxTokens: 100 });
    full.accept(new Array(20).fill(5));
    const { tokenIds, finishReason, contextFull } = await full.completion;
    expect([tokenIds.length, finishReason, contextFull]).toEqual([10, "length", true]);
  });
});
