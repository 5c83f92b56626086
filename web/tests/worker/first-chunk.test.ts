/** The first chunk of a prompt, by how long it should take. */

import { expect, test } from "vitest";
import { rowsWithin } from "../../worker/first-chunk.ts";

test.each([
  // Milliseconds of 32 rows, and the rows that take a quarter of a second at most.
  [0, 128],
  [10, 128],
  [62, 128],
  [63, 64],
  [125, 64],
  [250, 32],
  [251, 16],
  [2_000, 16],
])("where 32 rows take %d ms, has %i rows", (ms, rows) => {
  expect(rowsWithin(ms)).toBe(rows);
});
