import { describe, expect, it } from "vitest";
import { runnable } from "../../chat/programs.ts";
import type { BundleManifest } from "../../format/manifest.ts";
import { model, program } from "../engine/reference-bundle.ts";

const made = (id: string, features: readonly string[], target = "webgpu") => ({
  ...program(64, 4),
  id,
  target,
  needs: { arch: null, features },
});
const tensor = { file: "w", dtype: "uint8", shape: [96], offset: 0, bytes: 96 };
const MANIFEST: BundleManifest = {
  ...model({ pages: 4 }),
  layouts: new Map([["gpu", new Map([["w", tensor]])]]),
  programs: [made("cpu", [], "cpu"), made("f16", ["shader-f16"]), made("f32", [])],
};

describe("the programs to choose from", () => {
  it.each([
    [[], ["f32"]],
    [
      ["shader-f16", "subgroups"],
      ["f16", "f32"],
    ],
  ])("of an adapter with %j are %j", (features, ids) => {
    expect(runnable(MANIFEST, features).map(({ id }) => id)).toEqual(ids);
  });

  it("say what they take: the weights, and a conversation by its pages", () => {
    const [first] = runnable(MANIFEST, []);
    const [page = 0] = program(64, 4).pageBytes;
    expect(first?.weights).toBe(96);
    expect([1, 16, 17].map((tokens) => first?.conversation(tokens))).toEqual([
      page,
      page,
      2 * page,
    ]);
  });
});
