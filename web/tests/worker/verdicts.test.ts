/** Which programs were wrong here is remembered, and for nothing else than here. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import type { BundleManifest, FileEntry, Program } from "../../format/manifest.ts";
import { PROOF } from "../../format/proof.ts";
import { MemoryStore } from "../../store/memory.ts";
import { trusted, without } from "../../worker/choice.ts";
import { Verdicts } from "../../worker/verdicts.ts";
import { MANIFEST, PROGRAM as SMALL } from "../device/bundle.ts";

const [SHADER = ""] = SMALL.shaders.values();
const [PLAN, WEIGHTS] = ["decode.json", "weights.safetensors"];

const PROGRAM: Program = { ...SMALL, layout: "gpu", plans: new Map([["decode", PLAN]]) };
const OTHER: Program = { ...PROGRAM, id: "other" };
const LAST: Program = { ...PROGRAM, id: "last" };

/** A bundle that lists all that the programs read, and some of it with other contents. */
function withOther(...changed: readonly string[]): BundleManifest {
  const entry = (path: string): FileEntry => ({
    bytes: 16,
    sha256: changed.includes(path) ? "b" : "a",
    chunks: [],
  });
  const paths = [...PROGRAM.shaders.values(), PLAN, WEIGHTS, PROOF];
  const weight = { file: WEIGHTS, dtype: "float32", shape: [4], offset: 0, bytes: 16 } as const;
  return {
    ...MANIFEST,
    layouts: new Map([["gpu", new Map([["weight", weight]])]]),
    files: new Map(paths.map((path) => [path, entry(path)])),
  };
}

describe("a program that was wrong", () => {
  const store = new MemoryStore();
  const here = new Verdicts("here", withOther(), store);

  test("is not trusted again, unless it is found to be right", async () => {
    await here.wrong(OTHER);
    expect(await trusted([PROGRAM, OTHER, LAST], here)).toEqual([PROGRAM, LAST]);
    await here.right(OTHER);
    expect(await trusted([PROGRAM, OTHER, LAST], here)).toEqual([PROGRAM, OTHER, LAST]);
  });

  test("is tried again where all of them were", async () => {
    await here.wrong(PROGRAM);
    await here.wrong(OTHER);
    expect(await trusted([PROGRAM, OTHER], here)).toEqual([PROGRAM, OTHER]);
  });

  test.each([
    ["on another adapter", new Verdicts("there", withOther(), store)],
    ["with other shaders", new Verdicts("here", withOther(SHADER), store)],
    ["with other plans", new Verdicts("here", withOther(PLAN), store)],
    ["with other weights", new Verdicts("here", withOther(WEIGHTS), store)],
    ["with another proof", new Verdicts("here", withOther(PROOF), store)],
  ])("is trusted %s", async (_, verdicts) => {
    await here.wrong(PROGRAM);
    expect(await here.isWrong(PROGRAM)).toBe(true);
    expect(await verdicts.isWrong(PROGRAM)).toBe(false);
  });

  test("leaves the others, and where there are none an error that says what was wrong", () => {
    const why = new EdgewiseError("device.output", "It was wrong by far.");
    expect(without([PROGRAM, OTHER], PROGRAM, "A GPU", why)).toEqual([OTHER]);
    const message = expect.stringMatching(/^A GPU runs no program .* It was wrong by far\.$/);
    expect(() => without([OTHER], OTHER, "A GPU", why)).toThrow(
      expect.objectContaining({ code: "device.output", message }),
    );
  });
});
