/** Pieces of text in their order, whoever reads them and whenever. */

import { expect, test } from "vitest";
import { TextStream } from "../../engine/stream.ts";

async function all(stream: TextStream): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

test("pieces before and after somebody reads come in order, empty ones not at all", async () => {
  const stream = new TextStream(() => {});
  stream.push("a");
  const read = all(stream);
  stream.push("");
  stream.push("b");
  await Promise.resolve();
  stream.push("c");
  stream.end();
  stream.push("late");
  expect(await read).toEqual(["a", "b", "c"]);
});

test("a failure comes after the pieces before it", async () => {
  const stream = new TextStream(() => {});
  stream.push("a");
  stream.end(new Error("lost"));
  const pieces: string[] = [];
  const read = (async () => {
    for await (const piece of stream) pieces.push(piece);
  })();
  await expect(read).rejects.toThrow("lost");
  expect(pieces).toEqual(["a"]);
});

test("leaving the loop is noticed", async () => {
  let left = 0;
  const stream = new TextStream(() => {
    left += 1;
  });
  stream.push("a");
  for await (const _ of stream) break;
  expect(left).toBe(1);
});

test("two readers share the pieces, and both come to the end", async () => {
  const stream = new TextStream(() => {});
  const reads = [all(stream), all(stream)];
  for (const piece of ["a", "b", "c"]) {
    stream.push(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  stream.end();
  const pieces = await Promise.all(reads);
  expect(pieces.flat().sort()).toEqual(["a", "b", "c"]);
});
