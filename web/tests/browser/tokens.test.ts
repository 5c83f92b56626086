import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FULL } from "../suite.ts";
import { asking, compare, type Say } from "./comparing.ts";
import { type Bound, FLOAT16, FLOAT32, INTEGERS, readExpected } from "./expected.ts";
import type { AdapterName } from "./launch.ts";
import type {} from "./pages/library.ts";
import { openSession, type Session } from "./session.ts";

const BUNDLE = "/bundles/demo-q4/";

interface Case {
  readonly adapter: AdapterName;
  readonly program: string;
  /** The engine chooses it by itself. */
  readonly chosen?: boolean;
  /** Python's programs it is compared with, and how far two logits may be apart. */
  readonly against: readonly (readonly [string, Bound])[];
}

const CASES: readonly Case[] = [
  {
    adapter: "lavapipe",
    program: "webgpu-f32",
    against: [
      ["webgpu-f32", FLOAT32],
      ["cpu", INTEGERS],
    ],
  },
  {
    adapter: "lavapipe",
    program: "webgpu-f16-subgroups",
    // The bound holds between f32 and f16, too.
    against: [[FULL ? "webgpu-f16-subgroups" : "webgpu-f32", FLOAT16]],
  },
  // Barriers cost it most: the engine finds out which program has none.
  {
    adapter: "swiftshader",
    program: "webgpu-f32-serial",
    chosen: true,
    against: [
      ["webgpu-f32", FLOAT32],
      ["cpu", INTEGERS],
    ],
  },
];

describe.each(CASES)("$program on $adapter", ({ adapter, program, chosen, against }) => {
  let session: Session;
  let say: Say;
  const expected = readExpected();

  beforeAll(async () => {
    session = await openSession(adapter);
    const page = await session.library();
    const options = chosen ? {} : { program };
    const loaded = await page.evaluate(({ url, options }) => library.load("demo", url, options), {
      url: BUNDLE,
      options,
    });
    expect(loaded).toMatchObject({ value: { program } });
    say = asking(page, "demo");
  });
  afterAll(() => session?.close());

  it.each(against)(
    "says what Python's %s says, but for near ties",
    async (name, bound) => {
      const python = expected.programs[name];
      if (!python) throw new Error(`nothing expected of ${name}`);
      const compared = await compare(say, expected.prompts, python, bound);
      expect(compared.wrong).toEqual([]);
      expect(compared.equal).toBeGreaterThan(0.98 * compared.tokens);
    },
    600_000,
  );
});
