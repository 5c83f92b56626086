import { expect, it } from "vitest";
import type { BundleManifest, FileEntry } from "../../format/manifest.ts";
import { pieces } from "../../store/pieces.ts";

const MIB = 1 << 20;
const BASE = "https://host/bundles/demo/";

function manifest(files: Readonly<Record<string, FileEntry>>): Pick<BundleManifest, "files"> {
  return { files: new Map(Object.entries(files)) };
}

it("a file of up to 32 MiB is one piece", () => {
  const found = pieces(
    manifest({ "params/gpu/0.safetensors": { bytes: 32 * MIB, sha256: "aa", chunks: [] } }),
    ["params/gpu/0.safetensors"],
    BASE,
  );
  expect(found).toEqual([
    {
      sha256: "aa",
      bytes: 32 * MIB,
      path: "params/gpu/0.safetensors",
      url: `${BASE}params/gpu/0.safetensors`,
    },
  ]);
});

it("a larger file is split at its chunks, the last one shorter", () => {
  const bytes = 64 * MIB + 5;
  const found = pieces(
    manifest({ big: { bytes, sha256: "aa", chunks: ["c0", "c1", "c2"] } }),
    ["big"],
    BASE,
  );
  expect(found.map(({ sha256, bytes, range }) => [sha256, bytes, range])).toEqual([
    ["c0", 32 * MIB, { start: 0, end: 32 * MIB }],
    ["c1", 32 * MIB, { start: 32 * MIB, end: 64 * MIB }],
    ["c2", 5, { start: 64 * MIB, end: bytes }],
  ]);
});

it("pieces come in the order of the paths", () => {
  const entry = { bytes: 1, sha256: "aa", chunks: [] };
  const found = pieces(manifest({ a: entry, b: entry }), ["b", "a"], BASE);
  expect(found.map(({ path }) => path)).toEqual(["b", "a"]);
});

it("a file the bundle does not have is named", () => {
  expect(() => pieces(manifest({}), ["nope.json"], BASE)).toThrow(
    expect.objectContaining({ code: "bundle.missing", message: expect.stringContaining("nope") }),
  );
});
