/** A model with windows, whose layers are two state groups: it says what Python's engine says. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { asking, compare } from "./comparing.ts";
import { FLOAT32, readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "windowed-q4";
const PROGRAM = "webgpu-f32";

let session: Session;
let page: Page;
const { prompts, programs } = readExpected().windowed;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
  const loaded = await page.evaluate(
    ({ bundle, program }) => library.load("windowed", `/bundles/${bundle}/`, { program }),
    { bundle: BUNDLE, program: PROGRAM },
  );
  expect(loaded).toMatchObject({ value: { program: PROGRAM } });
});
afterAll(() => session?.close());

it("says what Python's engine says on the same adapter, but for near ties", async () => {
  const python = programs[PROGRAM];
  if (!python) throw new Error(`nothing expected of ${PROGRAM}`);
  const compared = await compare(asking(page, "windowed"), prompts, python, FLOAT32);
  expect(compared.wrong).toEqual([]);
  expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
});

it("goes on from the pages of all its groups as from the beginning", async () => {
  const said = await page.evaluate(async (prompts) => {
    const prompt = [...(prompts.at(-1) ?? [])].reverse(); // nobody has asked it before
    const options = { maxTokens: 24, temperature: 0, ignoreEos: true, logprobs: true, n: 1 };
    const asked = [];
    for (let nth = 0; nth < 2; nth++) {
      const [one] = await library.choices("windowed", prompt, options);
      asked.push({ ids: one?.tokenIds, cached: one?.usage.cachedTokens });
    }
    return asked;
  }, prompts);
  const [cold, warm] = said;
  expect([cold?.cached, warm?.cached]).toEqual([0, 96]);
  expect(warm?.ids).toEqual(cold?.ids);
});
