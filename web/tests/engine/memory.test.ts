/** How many pages there are: enough for every sequence where memory allows it, always for one. */

import { expect, test } from "vitest";
import { firstPages, isSmall, mostPages, poolPages, weightBytes } from "../../engine/memory.ts";
import type { BundleManifest, StateGroup, TensorEntry } from "../../format/manifest.ts";
import { footprintOf, pageSize } from "../../format/state.ts";
import { model, program } from "./reference-bundle.ts";

const tensor: TensorEntry = { file: "f", dtype: "uint32", shape: [250], offset: 0, bytes: 1000 };
/** Keys and values of 16 tokens and 2 heads of 64, in one layer. */
const LAYER = 2 * 2 * 16 * 64 * 2;
const manifest: BundleManifest = {
  ...model({ pages: 1, context: 1024, maxBatch: 8 }),
  stateGroups: [
    {
      kind: "paged",
      layers: [0, 1, 2],
      buffers: ["kv.0", "kv.1", "kv.2"],
      window: null,
      pageTokens: 16,
      kvHeads: 2,
      headDim: 64,
      scales: [],
    },
  ],
  layouts: new Map([["gpu", new Map([["a", tensor]])]]),
};
const f16 = { ...program(64, 8), stateDtype: "float16" as const, pageBytes: [3 * LAYER] };

const FOOTPRINT = footprintOf(manifest);

test("weights take the bytes of their layout", () => {
  expect(weightBytes(manifest, f16)).toBe(1000);
});

test("there are pages for every sequence at full length", () => {
  expect(poolPages(manifest, f16, 1024, null)).toBe(8 * 64);
  expect(poolPages(manifest, f16, 100, null)).toBe(8 * 7);
});

test("a buffer bounds them, and memory, half of which is for pages", () => {
  expect(poolPages(manifest, f16, 1024, null, 100 * LAYER)).toBe(100);
  expect(poolPages(manifest, f16, 1024, 1000 + 200 * 3 * LAYER)).toBe(100);
  expect(poolPages(manifest, f16, 1024, 1000 + 70 * 3 * LAYER)).toBe(64);
});

test.each([
  [null, 63 * LAYER],
  [1000 + 63 * 3 * LAYER, null],
  [0, null],
])("not enough for one sequence is refused with sizes", (available, largest) => {
  const refused = expect.objectContaining({
    code: "device.memory",
    message: expect.stringMatching(/1024 tokens take? .*MiB|1024 tokens \d+ MiB/),
  });
  expect(() => poolPages(manifest, f16, 1024, available, largest)).toThrow(refused);
});

test("a long context does not make the pool larger where nobody knows what there is room for", () => {
  const long = { ...manifest, model: { ...manifest.model, context: 131072 } };
  expect(poolPages(long, f16, 131072, null)).toBe(8192);
  expect(poolPages(long, f16, 8192, null)).toBe(8 * 256);
  expect(poolPages(long, f16, 131072, 1000 + 2 * 9000 * 3 * LAYER)).toBe(9000);
});

test("where no context was asked for, as much of it as there is room for will do", () => {
  expect(poolPages(manifest, f16, 1024, null, 63 * LAYER, 256)).toBe(63);
  expect(poolPages(manifest, f16, 1024, 1000 + 40 * 3 * LAYER, null, 256)).toBe(20);
  expect(() => poolPages(manifest, f16, 1024, null, 15 * LAYER, 256)).toThrow(/256 tokens/);
});

const LARGE = 2 ** 32;
const PLENTY = { handheld: false, gigabytes: 16 };

test.each([
  [PLENTY, LARGE, false],
  [{ ...PLENTY, gigabytes: null }, LARGE, false],
  [{ ...PLENTY, handheld: true }, LARGE, true],
  [{ ...PLENTY, gigabytes: 4 }, LARGE, true],
  [PLENTY, 512 << 20, true],
  [PLENTY, 1 << 30, false],
])("a machine of %o with buffers of %i bytes is small: %s", (machine, buffer, small) => {
  expect(isSmall(machine, buffer)).toBe(small);
});

test.each([
  // Bytes of a token, most pages, and the tokens of pages that a small machine begins with.
  [112 << 10, 256, 1024],
  [45 << 10, 256, 1456],
  [22 << 10, 512, 2048],
  [22 << 10, 40, 640],
])("of %i bytes a token, %i pages at most: %i tokens at first", (bytes, most, tokens) => {
  const sized = { ...f16, pageBytes: [16 * bytes] };
  expect(16 * firstPages(sized, FOOTPRINT, most, true)).toBe(tokens);
});

test.each([
  // Bytes of a token, tokens of context, and the tokens of pages at first and at most.
  [112 << 10, 4096, 4096, 4096],
  [112 << 10, 40960, 4096, 40960],
  [22 << 10, 40960, 11904, 40960],
  [22 << 10, 1024, 8192, 8192],
])("of %i bytes a token and %i tokens of context: %i tokens at first, %i at most", (...row) => {
  const [bytes, context, first, last] = row;
  const sized = { ...f16, pageBytes: [16 * bytes] };
  const most = mostPages(sized, FOOTPRINT, context, poolPages(manifest, sized, context, null));
  expect(16 * most).toBe(last);
  expect(16 * firstPages(sized, FOOTPRINT, most, false)).toBe(first);
});

test("a model with windows has pages for what its sequences keep: a third of what without them", () => {
  // As Gemma 3 1B: 4 layers without a window, 22 with one of 1,024 tokens; a key and a value of 256 numbers.
  const layers = [4, 4, 4, 4, 4, 4, 2];
  const group = { ...model({ pages: 1 }).stateGroups[0], kvHeads: 1, headDim: 256 };
  const windowed = (window: number | null): BundleManifest => ({
    ...model({ pages: 1, context: 8192, maxBatch: 1, prefillChunk: 512 }),
    stateGroups: layers.map((count, nth) => ({
      ...(group as StateGroup),
      layers: [nth],
      buffers: ["kv.0", "kv.1", "kv.2", "kv.3"].slice(0, count),
      window: nth === 0 ? null : window,
    })),
  });
  const row = 2 * 16 * 256 * 2;
  const f16 = { ...program(512, 1), pageBytes: layers.map((count) => count * row) };
  const bytes = (manifest: BundleManifest) => {
    const pages = poolPages(manifest, f16, 8192, null);
    return mostPages(f16, footprintOf(manifest), 8192, pages) * pageSize(f16);
  };
  expect(bytes(windowed(1024))).toBe((512 + 6 * 129) * 4 * row);
  expect(bytes(windowed(null))).toBe(7 * 512 * 4 * row);
  // A small machine begins with 2,048 tokens, which windows and two chunks cover.
  expect(firstPages(f16, footprintOf(windowed(1024)), 7 * 512, true)).toBe(7 * 128);
});
