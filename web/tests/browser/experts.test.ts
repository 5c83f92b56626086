/** Experts, sinks and windows, as gpt-oss has them: a tab computes what Python does, whatever stands beside a text. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { asking, compare, drawnTwice } from "./comparing.ts";
import { FLOAT32, readExpected } from "./expected.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const PROGRAM = "webgpu-f32";

let session: Session;
let page: Page;
const { prompts, programs } = readExpected().experts;

beforeAll(async () => {
  session = await openSession("lavapipe");
  page = await session.library();
  const loaded = await page.evaluate(
    (program) => library.load("experts", "/bundles/experts-q4/", { program }),
    PROGRAM,
  );
  expect(loaded).toMatchObject({ value: { program: PROGRAM } });
});
afterAll(() => session?.close());

it("say what Python's engine says on the same adapter, but for near ties", async () => {
  const python = programs[PROGRAM];
  if (!python) throw new Error(`nothing expected of ${PROGRAM}`);
  const compared = await compare(asking(page, "experts"), prompts, python, FLOAT32);
  expect(compared.wrong).toEqual([]);
  expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
});

it("give a text the same tokens alone and beside others", async () => {
  const drawn = await drawnTwice(page, "experts", prompts);
  expect(drawn.alone).toEqual(drawn.together);
});
