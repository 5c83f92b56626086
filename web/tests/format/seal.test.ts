/** The digest of bundle.json, as Python writes it: no bit changes unnoticed. */

import { describe, expect, test } from "vitest";
import { parseManifest } from "../../format/manifest-reader.ts";
import { bytes, load, named, written } from "./cases.ts";
import { goldenManifest } from "./goldens.ts";

const MANIFEST = new Uint8Array(bytes("goldens/bundle.json"));
const coded = (code: unknown) => expect.objectContaining({ name: "EdgewiseError", code });

test("a manifest that Python wrote is read", async () => {
  expect(await parseManifest(MANIFEST)).toEqual(goldenManifest());
});

test("no flipped bit goes unnoticed", async () => {
  // All of the beginning, which the digest does not cover, and every 101st bit of the rest.
  const places = [...Array(8 * MANIFEST.length).keys()].filter((i) => i < 8 * 80 || i % 101 === 0);
  expect(places.length).toBeGreaterThan(3000);
  for (const place of places) {
    const data = MANIFEST.slice();
    data[place >> 3] = (data[place >> 3] ?? 0) ^ (1 << (place & 7));
    await expect(parseManifest(data)).rejects.toThrow(
      expect.objectContaining({ name: "EdgewiseError" }),
    );
  }
});

describe("a manifest's file is refused for", () => {
  test.each(named(load("seals.json")))("%s", async (_, item) => {
    await expect(parseManifest(written(item))).rejects.toThrow(coded(item.get("code")));
  });
});

test("a bundle of the format before is to be compiled again", async () => {
  const old = new TextEncoder().encode('{\n "version": 2,\n "name": "old"\n}\n');
  await expect(parseManifest(old)).rejects.toMatchObject({
    code: "bundle.version",
    remedy: expect.stringContaining("Compile the model again"),
  });
});
