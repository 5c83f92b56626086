/** What a bundle ships of prompts: an index is taken whole or refused, with the code that Python refuses it with. */

import { describe, expect, test } from "vitest";
import {
  computedBy,
  filesOf,
  pagePath,
  parseIndex,
  placeOf,
  readIndex,
} from "../../format/packs.ts";
import {
  codeOf as codeOfCase,
  list,
  load,
  named,
  numbers,
  type Table,
  table,
  text,
} from "./cases.ts";

const known = table(load("pack-indices.json"));
const windowed = table(load("pack-indices-windows.json"));
const place = text(known.get("place"));
const sizes = numbers(known.get("sizes"));
const cases = named(known.get("cases"));

describe.each([
  ["without windows", known],
  ["with windows", windowed],
])("an index %s", (_, of) => {
  const place = text(of.get("place"));
  const sizes = numbers(of.get("sizes"));
  const read = (value: unknown) => readIndex(value, place, (path) => sizes.get(path));
  const cases = named(of.get("cases"));

  test.each(cases)("is taken or refused: %s", async (_, item) => {
    expect(await codeOf(() => read(item.get("index")))).toBe(item.get("code"));
  });

  test.each(cases.filter(([, item]) => item.get("code") === null))(
    "is what it says: %s",
    async (_, item) => {
      expect(await read(item.get("index"))).toEqual(said(table(item.get("index"))));
    },
  );

  test("has no files but those that are listed", async () => {
    const read = (value: unknown) => readIndex(value, place, (path) => sizes.get(path));
    const index = await read(table(cases[0]?.[1]).get("index"));
    const paths = [...(await filesOf(index))].map((key) => pagePath(place, key));
    expect(paths.sort()).toEqual([...sizes.keys()].sort());
  });
});

test("more pages than there may be are refused before any is named", async () => {
  const first = table(named(windowed.get("cases"))[0]?.[1]);
  const index = new Map(table(first.get("index")));
  const pack = new Map(table(list(index.get("packs"))[0]));
  pack.set("keys", new Array(2 ** 13 + 1).fill("a1".repeat(32)));
  index.set("packs", [pack]).set("windows", [null, ...new Array(7).fill(2 ** 30)]);
  const read = () => readIndex(index, text(windowed.get("place")), () => 300);
  expect(await codeOf(read)).toBe("bundle.range");
});

test("it is JSON", async () => {
  const files = new Map(
    [...sizes].map(([path, bytes]) => [path, { bytes, sha256: "", chunks: [] }]),
  );
  const encode = (value: string) => new TextEncoder().encode(value);
  expect(await codeOf(() => parseIndex(encode("{"), place, { files }))).toBe("bundle.json");
  const index = `{"version": 1, "producer": "p", "device": "d", "page_tokens": 16, "file_bytes": 300, "packs": []}`;
  expect(computedBy(await parseIndex(encode(index), place, { files }))).toBe("p/d");
});

test("packs that begin alike share pages", async () => {
  const read = (value: unknown) => readIndex(value, place, (path) => sizes.get(path));
  const index = await read(table(cases[0]?.[1]).get("index"));
  expect(index.packs.map(({ keys }) => keys.length)).toEqual([1, 2]);
  expect((await filesOf(index)).size).toBe(2);
});

test("programs that compute alike share a place", () => {
  expect(placeOf({ target: "cpu", arithmetic: "w4a8" })).toBe(place);
});

/** The code of the error that reading ends with; null for none. */
async function codeOf(ask: () => Promise<unknown>): Promise<string | null> {
  try {
    await ask();
    return null;
  } catch (error) {
    return codeOfCase(() => {
      throw error;
    });
  }
}

function said(index: Table) {
  return {
    producer: index.get("producer"),
    device: index.get("device"),
    pageTokens: index.get("page_tokens"),
    fileBytes: index.get("file_bytes"),
    ...(index.has("windows") ? { windows: index.get("windows") } : {}),
    packs: list(index.get("packs")).map((one) => ({
      name: table(one).get("name"),
      prompt: table(one).get("prompt"),
      keys: table(one).get("keys"),
      prefillTokensPerSecond: table(one).get("prefill_tokens_per_s"),
    })),
  };
}
