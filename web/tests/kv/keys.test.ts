/** Keys are those that Python computes, from the same manifest. */

import { describe, expect, test } from "vitest";
import { hex } from "../../digest.ts";
import { parseManifest } from "../../format/manifest-reader.ts";
import { unseal } from "../../format/seal.ts";
import { pageKey, producerOf, rootKey } from "../../kv/keys.ts";
import { COMPACT, pythonJson } from "../../kv/python-json.ts";
import { bytes, load } from "../format/cases.ts";
import { goldenProgram } from "../format/goldens.ts";

interface Golden {
  readonly programs: Readonly<Record<string, { readonly root: string; readonly producer: string }>>;
  readonly pages: readonly {
    readonly before: string;
    readonly tokens: readonly number[];
    readonly key: string;
  }[];
}

const golden: Golden = JSON.parse(new TextDecoder().decode(bytes("page-keys.json")));
const written = load("page-keys.json") as ReadonlyMap<
  string,
  readonly ReadonlyMap<string, unknown>[]
>;

test.each(Object.entries(golden.programs))("of the program %s", async (id, { root, producer }) => {
  const data = bytes("goldens/bundle.json");
  const manifest = await unseal(data);
  const program = goldenProgram(await parseManifest(data), id);
  expect(hex(await rootKey(manifest, program))).toBe(root);
  expect(await producerOf(manifest, program)).toBe(producer);
});

test("of pages, each after another", async () => {
  for (const { before, tokens, key } of golden.pages) {
    const found = await pageKey(new Uint8Array(Buffer.from(before, "hex")), tokens);
    expect(hex(found)).toBe(key);
  }
});

describe("what is hashed", () => {
  test("is written as Python writes it", () => {
    const cases = written.get("json") ?? [];
    expect(cases.length).toBeGreaterThan(3);
    for (const one of cases) expect(pythonJson(one.get("value"))).toBe(one.get("text"));
    expect(pythonJson(new Map([["a", [1, "b"]]]), COMPACT)).toBe('{"a":[1,"b"]}');
  });

  test("has no fractions, which are not written alike everywhere", () => {
    expect(() => pythonJson(0.5)).toThrow(/0.5 is not what a manifest has/);
  });
});
