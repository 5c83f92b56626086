import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FULL } from "../suite.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "/bundles/overflowing-q4/";
/** Of this token no page of float16 holds the keys in layer 1; see tests/parity/outliers.py. */
const OVERFLOWING = 300;
const GREEDY = { maxTokens: 16, temperature: 0, ignoreEos: true };

/** The first one compiles the fewest kernels. */
const EVERY = [
  { adapter: "lavapipe", program: "webgpu-f32-serial" },
  { adapter: "lavapipe", program: "webgpu-f16" },
  { adapter: "swiftshader", program: "webgpu-f32-serial" },
] as const;

describe.each(FULL ? EVERY : EVERY.slice(0, 1))("$program on $adapter", ({ adapter, program }) => {
  let session: Session;
  let page: Page;
  const generate = (prompt: readonly number[], bias: number) =>
    page.evaluate(
      ({ prompt, bias, token, options }) =>
        library.generate("it", prompt, { ...options, logitBias: { [token]: bias } }),
      { prompt, bias, token: OVERFLOWING, options: GREEDY },
    );
  const failure = {
    error: {
      code: "engine.not_finite",
      message: expect.stringContaining("the keys of layer 1 are beyond what KV pages of float16"),
      remedy: expect.stringContaining("--kv f32"),
    },
  };

  beforeAll(async () => {
    session = await openSession(adapter);
    page = await session.library();
    const loaded = await page.evaluate(([url, program]) => library.load("it", url, { program }), [
      BUNDLE,
      program,
    ] as const);
    expect(loaded).toMatchObject({ value: { program } });
  });
  afterAll(() => session?.close());

  it("ends a request whose keys overflow, in its prompt or its answer, and no other", async () => {
    const prompt = Array.from({ length: 40 }, (_, i) => 20 + i);
    const [plain, answered, asked] = await Promise.all([
      generate(prompt, -100),
      generate([...prompt, 9], 100),
      generate([...prompt.slice(0, 20), OVERFLOWING, ...prompt], -100),
    ]);
    expect(asked).toMatchObject(failure);
    expect(answered).toMatchObject(failure);
    expect(plain).toMatchObject({ value: { finishReason: "length" } });
    expect(await generate(prompt, -100)).toMatchObject({
      value: { tokenIds: "value" in plain ? plain.value.tokenIds : [] },
    });
  });
});
