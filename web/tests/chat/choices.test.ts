import { describe, expect, it } from "vitest";
import { contexts, readChoices } from "../../chat/choices.ts";

describe("the contexts to choose from", () => {
  it.each([
    [4096, [4096, 2048, 1024, 512]],
    [3000, [3000, 2048, 1024, 512]],
    [512, [512]],
    [100, [100]],
  ])("of %i tokens are %j", (most, found) => {
    expect(contexts(most)).toEqual(found);
  });
});

describe("choices that were kept", () => {
  it("are read by the model's URL", () => {
    const kept = { "/bundles/a/": { program: "webgpu-f32", context: 512 }, "/bundles/b/": {} };
    expect(Object.fromEntries(readChoices(JSON.stringify(kept)))).toEqual(kept);
  });

  it.each([null, "", "{", "null", "3", '{"/a/": null}', '{"/a/": {"program": 1, "context": "x"}}'])(
    "are none in %j",
    (text) => {
      expect(
        [...readChoices(text).values()].every((choice) => Object.keys(choice).length === 0),
      ).toBe(true);
    },
  );
});
