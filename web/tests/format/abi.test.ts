/** What lies where in step buffers: the same numbers and shapes as in Python. */

import { expect, test } from "vitest";
import * as abi from "../../format/abi.ts";
import { list, load, numbers, table } from "./cases.ts";

test("every number is Python's, and none is missing", () => {
  const said = Object.entries(abi).filter(([name]) => name === name.toUpperCase());
  expect(new Map<string, unknown>(said)).toEqual(load("abi.json"));
});

test("step buffers have the shapes that Python gives them", () => {
  const cases = table(load("step-buffers.json"));
  const bounds = numbers(cases.get("bounds"));
  const bound = (name: string) => bounds.get(name) ?? Number.NaN;
  const shapes = abi.sharedBuffers({
    rows: bound("rows"),
    batch: bound("batch"),
    pages: bound("pages"),
    hidden: bound("hidden"),
    vocab: bound("vocab"),
  });
  const wanted = [...table(cases.get("buffers"))].map(
    ([name, item]) => [name, list(item)] as const,
  );
  expect(shapes).toEqual(new Map(wanted));
});
