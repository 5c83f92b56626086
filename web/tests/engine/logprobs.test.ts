/** How likely tokens were: told of each, whatever it is drawn under, and nothing else changes by it. */

import { describe, expect, it } from "vitest";
import type { GenerateOptions } from "../../client/types.ts";
import { EdgewiseError } from "../../errors.ts";
import { expectedTokens, VOCAB } from "./expected.ts";
import { Random } from "./random.ts";
import { makeEngine, promptOf, request, tokensOf } from "./support.ts";

const random = new Random(31);
const PROMPT = promptOf(random, 21);

/** What the reference model says of a token: of it by its id, and of those after it. */
function toldOf(token: number, top: number) {
  const ids = Array.from({ length: top }, (_, at) => (token + 1 + at) % VOCAB);
  return {
    tokenId: token,
    logprob: Math.fround(-token / VOCAB),
    top: ids.slice(0, 19).map((id) => [id, Math.fround(-id / VOCAB)]),
  };
}

describe("log-probabilities", () => {
  it.each<GenerateOptions>([
    { temperature: 0, topLogprobs: 20 },
    { temperature: 0.9, seed: 5, topLogprobs: 3 },
    { temperature: 0.9, seed: 5, minTokens: 6, frequencyPenalty: 1 },
    { temperature: 0.9, seed: 6 },
  ])("are of each token, which is the same as without: %o", async (options) => {
    const { engine, program } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, { maxTokens: 30, ...options, logprobs: true });
    const running = engine.submit(asked);
    const beside = engine.submit(request(promptOf(random, 9), { maxTokens: 12 }));
    const tokens = await tokensOf(running);
    expect(tokens).toEqual(expectedTokens(PROMPT, asked.params));
    const top = options.topLogprobs ?? 0;
    expect(running.logprobs).toEqual(tokens.map((token) => toldOf(token, top)));
    expect(await tokensOf(beside)).toEqual(tokens.length > 0 ? beside.idsFrom(0) : []);
    expect(beside.logprobs).toEqual([]);
    expect(program.runs.every(({ k }) => k === 1 || running.logprobs.length > 0)).toBe(true);
    expect(engine.check()).toEqual([]);
  });

  it("are told across a lost device, once each", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    const asked = request(PROMPT, { maxTokens: 40, ignoreEos: true, logprobs: true });
    const running = engine.submit(asked);
    const pieces = running.pieces[Symbol.asyncIterator]();
    for (let at = 0; at < 4; at++) await pieces.next();
    program.lose();
    engine.replaceProgram(makeEngine({ pages: 64 }).program);
    const tokens = await tokensOf(running);
    expect(tokens).toEqual(expectedTokens(PROMPT, asked.params));
    expect(running.logprobs.map(({ tokenId }) => tokenId)).toEqual(tokens);
  });

  it("have their plan made ready for the first who asks, and in the program after a lost one", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    await tokensOf(engine.submit(request(PROMPT, { maxTokens: 3 })));
    const after = makeEngine({ pages: 64 }).program;
    await engine.prepare(after);
    expect([program.prepared, after.prepared]).toEqual([[], []]);
    await tokensOf(engine.submit(request(PROMPT, { maxTokens: 3, logprobs: true })));
    expect(program.prepared).toEqual(["logprobs"]);
    await engine.prepare(after);
    expect(after.prepared).toEqual(["logprobs"]);
  });

  it("are told to who asked while the device was lost and the next program was prepared", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    program.preparing = () => Promise.reject(new EdgewiseError("device.lost", "It is gone."));
    program.lose();
    await program.lost;
    const after = makeEngine({ pages: 64 }).program;
    await engine.prepare(after);
    const asked = request(PROMPT, { maxTokens: 9, logprobs: true });
    const running = engine.submit(asked);
    engine.replaceProgram(after);
    expect(await tokensOf(running)).toEqual(expectedTokens(PROMPT, asked.params));
    expect(running.logprobs.map(({ tokenId }) => tokenId)).toEqual(running.idsFrom(0));
  });

  it("are not to be had where their kernels do not compile, and nobody else minds", async () => {
    const { engine, program } = makeEngine({ pages: 64 });
    program.preparing = () => Promise.reject(new EdgewiseError("device.kernel", "No."));
    const asked = engine.submit(request(PROMPT, { maxTokens: 3, logprobs: true }));
    const other = engine.submit(request(PROMPT, { maxTokens: 3 }));
    await expect(asked.completion).rejects.toMatchObject({ code: "device.kernel" });
    await expect(other.completion).resolves.toMatchObject({ finishReason: expect.anything() });
    expect(engine.check()).toEqual([]);
  });

  it("are refused of a program that has no plan for them", () => {
    const { engine, program } = makeEngine({ pages: 64 });
    (program.program.entries as Map<string, unknown>).delete("logprobs");
    const asked = () => engine.submit(request(PROMPT, { logprobs: true }));
    expect(asked).toThrow(expect.objectContaining({ code: "bundle.entry" }));
  });

  it.each([
    [{ topLogprobs: 3 }, "topLogprobs is 3; it must be 0 unless logprobs is true"],
    [{ logprobs: true, topLogprobs: 21 }, "a whole number from 0 to 20"],
    [{ logprobs: 1 as unknown as boolean }, "logprobs is 1; it must be true or false"],
  ])("are refused where they are asked for so: %o", (options, said) => {
    expect(() => request(PROMPT, options)).toThrow(said);
  });
});
