/**
 * `proof.json`: a few tokens, and some of the logits that follow each of them.
 *
 * The compiler computes them from the weights as a bundle has them, without a kernel. A program that
 * gives others computes something else, whatever its driver says: `engine/prove.ts` looks.
 */

import { parseJson } from "./json.ts";
import { integers, part } from "./manifest-parts.ts";

export const PROOF = "proof.json";

/** Logits are whole thousandths, which every JSON reader has exactly. */
const UNIT = 1000;
const MAX_TOKENS = 256;
const MAX_IDS = 1024;
const MAX_LOGIT = 2 ** 40;

/**
 * How far off a row of logits may be, in its standard deviations (RMS), by arithmetic: some ten times
 * what each rounds away (docs/testing.md), and a fifth or less of what a wrong answer is.
 */
const BOUNDS: ReadonlyMap<string, number> = new Map([
  ["f32", 0.05],
  ["f16", 0.1],
]);
const OTHER_BOUND = 0.25;
const LEAST_DEVIATION = 1e-3;

export interface Proof {
  /** Ids of one text from its beginning. */
  readonly tokens: readonly number[];
  /** Token ids whose logits are known. */
  readonly ids: readonly number[];
  /** For each token, the thousandths of those logits once it has been read. */
  readonly logits: readonly (readonly number[])[];
}

/** @throws EdgewiseError `bundle.*`: whatever is wrong with it. */
export function parseProof(data: Uint8Array, vocab: number): Proof {
  return readProof(parseJson(data, PROOF, "bundle"), vocab);
}

/** `parseProof` of what `parseJson` gave. */
export function readProof(value: unknown, vocab: number): Proof {
  const fields = part(value, PROOF);
  const tokens = integers(fields, "tokens", MAX_TOKENS, 0, vocab - 1);
  const ids = integers(fields, "ids", MAX_IDS, 0, vocab - 1);
  const rows = fields.items("logits", MAX_TOKENS);
  if (tokens.length === 0 || ids.length === 0 || rows.length !== tokens.length) {
    const found = `${rows.length} rows of ${ids.length} logits for ${tokens.length} tokens`;
    throw fields.fail("proof", found);
  }
  const logits = rows.map((row) => {
    if (!Array.isArray(row) || row.length !== ids.length) {
      throw fields.fail("proof", `a row of logits is no list of ${ids.length}`);
    }
    return integers(
      part(new Map([["logits", row]]), PROOF),
      "logits",
      ids.length,
      -MAX_LOGIT,
      MAX_LOGIT,
    );
  });
  fields.done();
  return { tokens, ids, logits };
}

/** How far off a program's logits may be, see `distance`. */
export function boundOf(arithmetic: string): number {
  return BOUNDS.get(arithmetic) ?? OTHER_BOUND;
}

/**
 * How far off the logits after a token are, in standard deviations of what is known: the root mean
 * square over `ids`, NaN where a logit is.
 *
 * @param position of the token.
 * @param logits of all token ids.
 */
export function distance(proof: Proof, position: number, logits: ArrayLike<number>): number {
  const known = (proof.logits[position] ?? []).map((value) => value / UNIT);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const spread = rootMean(known.map((value) => value - mean));
  const off = known.map((value, i) => (logits[proof.ids[i] ?? 0] ?? Number.NaN) - value);
  return rootMean(off) / Math.max(spread, LEAST_DEVIATION);
}

function rootMean(values: readonly number[]): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
}
