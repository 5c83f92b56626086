import { expect, test } from "vitest";
import { extrasOf } from "../../worker/extras.ts";

test("what nobody asked for is not there", async () => {
  expect(await extrasOf({})).toEqual({});
});

test("guesses and a trace are, where they were asked for", async () => {
  const extras = await extrasOf({ draft: "lookup", trace: true });
  expect(Object.keys(extras).sort()).toEqual(["drafter", "trace"]);
});

test("a way to guess that there is not is refused", async () => {
  const draft = "dreams" as unknown as "lookup";
  await expect(extrasOf({ draft })).rejects.toMatchObject({ code: "input.draft" });
});
