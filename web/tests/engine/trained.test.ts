/**
 * Tokenizers of every kind, trained and put together at random, give texts the ids that the tokenizers
 * package gives them, and the ids the same texts. tools/make_trained_cases.py writes more of them: the
 * file that TRAINED names is read in place of the kept one.
 */

import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { fileOf } from "./cases.ts";

/** Hashes of each text's outcome, packed end to end. */
interface Trained {
  readonly tokenizer: Readonly<Record<string, unknown>> & {
    readonly model: { readonly type: string };
  };
  readonly encoded: string;
  readonly plain: string;
  readonly decoded: string;
  readonly streamed: string;
}

interface Stored {
  readonly texts: readonly string[];
  readonly tokenizers: readonly Trained[];
}

const WIDTH = 4;
const stored: Stored = JSON.parse(
  new TextDecoder().decode(fileOf(process.env.TRAINED ?? "tests/text/trained.json")),
);
const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function packed(numbers: Iterable<number>): string {
  const digest = createHash("sha256")
    .update([...numbers].join(" "))
    .digest();
  return digest.subarray(0, 3).toString("base64");
}

const packedText = (text: string) => packed(new TextEncoder().encode(text));

/** The texts whose outcome has another hash. */
function unlike(outcomes: readonly string[], hashes: string): string[] {
  return stored.texts.filter((_, i) => outcomes[i] !== hashes.slice(i * WIDTH, i * WIDTH + WIDTH));
}

const named = stored.tokenizers.map((each, i) => [i, each.tokenizer.model.type, each] as const);

test.each(named)("tokenizer %d (%s) is the package's", (_, _kind, each) => {
  const tokenizer = Tokenizer.fromFiles(bytes(each.tokenizer), null);
  const ids = stored.texts.map((text) => tokenizer.encode(text));
  const plain = stored.texts.map((text) => packed(tokenizer.encode(text, false)));
  expect(unlike(ids.map(packed), each.encoded)).toEqual([]);
  expect(unlike(plain, each.plain)).toEqual([]);
  const decoded = ids.map((some) => packedText(tokenizer.decode(some)));
  expect(unlike(decoded, each.decoded)).toEqual([]);
  const streamed = ids.map((some) => {
    const stream = tokenizer.stream();
    return packedText(some.map((id) => stream.push([id])).join("") + stream.finish());
  });
  expect(unlike(streamed, each.streamed)).toEqual([]);
});

test("every kind of model is among them", () => {
  const kinds = new Set(stored.tokenizers.map(({ tokenizer }) => tokenizer.model.type));
  expect([...kinds].sort()).toEqual(["BPE", "Unigram", "WordLevel", "WordPiece"]);
});
