/** Which programs were wrong here is remembered, and for nothing else than here. */

import { describe, expect, test } from "vitest";
import { EdgewiseError } from "../../errors.ts";
import type { BundleManifest, FileEntry, Program } from "../../format/manifest.ts";
import { MemoryStore } from "../../store/memory.ts";
import { trusted, without } from "../../worker/choice.ts";
import { Verdicts } from "../../worker/verdicts.ts";
import { MANIFEST, PROGRAM } from "../device/bundle.ts";

const OTHER: Program = { ...PROGRAM, id: "other" };
const LAST: Program = { ...PROGRAM, id: "last" };

function withShaders(sha256: string): BundleManifest {
  const entry: FileEntry = { bytes: 1, sha256, chunks: [] };
  return {
    ...MANIFEST,
    files: new Map([...PROGRAM.shaders.values()].map((path) => [path, entry])),
  };
}

describe("a program that was wrong", () => {
  const store = new MemoryStore();
  const here = new Verdicts("here", withShaders("a"), store);

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
    ["on another adapter", new Verdicts("there", withShaders("a"), store)],
    ["with other shaders", new Verdicts("here", withShaders("b"), store)],
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
