/** A file of a page is believed where every byte of it is as it was written, and for nothing else. */

import { expect, test } from "vitest";
import { decodePage, encodePage, HEADER_BYTES } from "../../kv/page-file.ts";
import { contents } from "../store/support.ts";

const NAME = { producer: contents(32, 3), key: contents(32, 4) };
const PAGE = contents(700, 5);

test("has the bytes that the host writes", async () => {
  const file = await encodePage(NAME, PAGE);
  expect(HEADER_BYTES).toBe(112);
  expect(Buffer.from(file.subarray(0, 8)).toString("hex")).toBe("45574b5601000000");
  expect(file.subarray(8, 40)).toEqual(NAME.producer);
  expect(file.subarray(40, 72)).toEqual(NAME.key);
  expect(new DataView(file.buffer).getBigUint64(72, true)).toBe(700n);
  expect(file.subarray(HEADER_BYTES)).toEqual(PAGE);
  expect(await decodePage(NAME, 700, file)).toEqual(PAGE);
});

test("is none with any byte changed, or another length", async () => {
  const file = await encodePage(NAME, PAGE);
  for (let at = 0; at < file.length; at += at < HEADER_BYTES ? 1 : 37) {
    const damaged = file.slice();
    damaged[at] = (damaged[at] ?? 0) ^ (1 << (at % 8));
    expect(await decodePage(NAME, 700, damaged)).toBeNull();
  }
  for (const length of [0, 1, HEADER_BYTES, file.length - 1]) {
    expect(await decodePage(NAME, 700, file.slice(0, length))).toBeNull();
  }
  expect(await decodePage(NAME, 701, new Uint8Array([...file, 0]))).toBeNull();
});

test("is none of another producer or key", async () => {
  const file = await encodePage(NAME, PAGE);
  expect(await decodePage({ ...NAME, producer: contents(32, 9) }, 700, file)).toBeNull();
  expect(await decodePage({ ...NAME, key: contents(32, 9) }, 700, file)).toBeNull();
});
