import { afterEach, beforeEach, expect, it } from "vitest";
import { eachPart } from "../../store/stream.ts";

/** As in Safari: a stream cannot be iterated. */
const iterator = Object.getOwnPropertyDescriptor(ReadableStream.prototype, Symbol.asyncIterator);
beforeEach(() => {
  Reflect.deleteProperty(ReadableStream.prototype, Symbol.asyncIterator);
});
afterEach(() => {
  Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, iterator ?? {});
});

/** A stream of some parts, then an error if there is one; what it was cancelled with is kept. */
function streamOf(parts: readonly string[], error?: Error) {
  const left = [...parts];
  const heard = { cancelled: 0 };
  const stream = new ReadableStream<string>(
    {
      pull(controller) {
        const part = left.shift();
        if (part !== undefined) controller.enqueue(part);
        else if (error) controller.error(error);
        else controller.close();
      },
      cancel() {
        heard.cancelled += 1;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, heard };
}

it("a stream is read to its end, also where it cannot be iterated", async () => {
  const { stream, heard } = streamOf(["a", "b", "c"]);
  const read: string[] = [];
  await eachPart(stream, (part) => read.push(part) > 0);
  expect(read).toEqual(["a", "b", "c"]);
  expect(heard.cancelled).toBe(0);
});

it("who has enough leaves the rest", async () => {
  const { stream, heard } = streamOf(["a", "b", "c"]);
  const read: string[] = [];
  await eachPart(stream, (part) => read.push(part) < 2);
  expect(read).toEqual(["a", "b"]);
  expect(heard.cancelled).toBe(1);
});

it("what goes wrong in between is heard, and the stream is left", async () => {
  const wrong = new Error("no such part");
  const { stream, heard } = streamOf(["a", "b"]);
  const reading = eachPart(stream, () => {
    throw wrong;
  });
  await expect(reading).rejects.toBe(wrong);
  expect(heard.cancelled).toBe(1);
});

it("a stream that fails is heard", async () => {
  const wrong = new Error("the connection broke");
  const { stream } = streamOf(["a"], wrong);
  await expect(eachPart(stream, () => true)).rejects.toBe(wrong);
});
