/** Masks over 150,000 tokens are, token by token, those of the Python matcher. */

import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { Matcher } from "../../grammar/matcher.ts";
import type { Grammar } from "../../grammar/nodes.ts";
import { lowerSchema } from "../../grammar/schema/lower.ts";
import { Vocabulary } from "../../grammar/vocabulary.ts";
import { lowerGrammar } from "../../grammar/written.ts";
import { casesOf, maskCases } from "./cases.ts";
import { largeTokens } from "./large-vocabulary.ts";

/** What tools/make_large_masks.py says of each field. */
interface LargeCase {
  readonly file: "masks.json" | "schemas.json";
  readonly what: string;
  readonly steps: readonly {
    readonly bytes: string;
    readonly count: number;
    readonly mask: string;
  }[];
}

interface SchemaCase {
  readonly what: string;
  readonly schema: unknown;
  readonly prefix?: string;
}

const VOCABULARY = new Vocabulary(largeTokens());
const GRAMMARS = new Map(
  maskCases().cases.map(({ what, text }) => [`masks.json ${what}`, () => lowerGrammar(text)]),
);
for (const { what, schema, prefix } of casesOf<SchemaCase>("schemas.json")) {
  GRAMMARS.set(`schemas.json ${what}`, () => lowerSchema(schema, prefix));
}

function grammarOf(name: string): Grammar {
  const make = GRAMMARS.get(name);
  if (!make) throw new RangeError(`there is no ${name}`);
  return make();
}

function countIn(mask: Uint32Array): number {
  let count = 0;
  for (let word of mask) for (; word !== 0; word &= word - 1) count += 1;
  return count;
}

/** The first digits of a hash of the mask's words, little-endian. */
function digest(mask: Uint32Array): string {
  const written = new DataView(new ArrayBuffer(4 * mask.length));
  for (const [i, word] of mask.entries()) written.setUint32(4 * i, word, true);
  const hash = createHash("sha256").update(new Uint8Array(written.buffer));
  return hash.digest("hex").slice(0, 8);
}

const CASES = casesOf<LargeCase>("large-masks.json");

test.each(CASES.map((item) => [`${item.file} ${item.what}`, item] as const))("%s", (name, item) => {
  const matcher = new Matcher(grammarOf(name), VOCABULARY);
  let state: number | null = matcher.start;
  const found = item.steps.map(({ bytes }) => {
    if (state !== null) state = matcher.advanceBytes(state, Buffer.from(bytes, "hex"));
    const mask = state === null ? new Uint32Array(0) : matcher.mask(state);
    return { bytes, count: countIn(mask), mask: digest(mask) };
  });
  expect(found).toEqual(item.steps);
});
