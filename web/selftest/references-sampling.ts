/** What the kernels after the logits should have computed: tokens, their record, probabilities. */
import {
  COUNT,
  KV_LEN,
  MIN_P,
  paddedVocab,
  RING,
  SAMPLING_WIDTH,
  SEED_HIGH,
  SEED_LOW,
  SEQUENCE,
  TEMPERATURE,
  TOP_K,
  TOP_P,
} from "../format/abi.ts";
import type { ModelInfo } from "../format/manifest.ts";
import { type Asked, drawnFrom } from "./drawing.ts";
import type { Launch } from "./launch.ts";
import { relativeError } from "./numbers.ts";
import type { Checked } from "./references.ts";

/** A sum of float32 probabilities, in whatever order. */
const FLOAT32 = 1e-4;

const EXACT = (equal: boolean): Checked => ({
  error: equal ? 0 : Number.POSITIVE_INFINITY,
  bound: 0,
});

/**
 * Greedy: the token drawn is the first of the largest logits; with a temperature, what the rules draw.
 *
 * What the first of two launches leaves is the second one's.
 */
export async function drawing(launch: Launch, { vocab }: ModelInfo): Promise<Checked | null> {
  const logits = launch.buffer("logits");
  const sampled = launch.after("sampled");
  const leaves = launch.arguments.get("left")?.written === true;
  const table = launch.before("table");
  if (!logits || !sampled || !table) return null;
  const padded = paddedVocab(vocab);
  const width = launch.arguments.get("table")?.shape[1] ?? 0;
  const grown = launch.call.operation === "decode" ? 1 : 0;
  const equal = Array.from({ length: launch.call.live }, (_, row) => {
    const of = Array.from(logits.subarray(row * padded, row * padded + vocab));
    const asked = askedBy(launch, row);
    const position = (table[row * width + KV_LEN] ?? Number.NaN) + grown;
    const token = sampled[row] ?? -1;
    if (leaves && launch.after("left")?.[row] !== 0) return true;
    if (asked.temperature > 0) return drawnFrom(of, asked, position).has(token);
    return (
      token ===
      of.indexOf(of.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY))
    );
  });
  return EXACT(equal.every(Boolean));
}

function askedBy(launch: Launch, row: number): Asked {
  const float = (at: number) => launch.before("sampling_f")?.[row * SAMPLING_WIDTH + at] ?? 0;
  const whole = (at: number) => launch.before("sampling_i")?.[row * SAMPLING_WIDTH + at] ?? 0;
  return {
    temperature: float(TEMPERATURE),
    topK: whole(TOP_K),
    topP: float(TOP_P),
    minP: float(MIN_P),
    seed: [whole(SEED_LOW), whole(SEED_HIGH)],
    sequence: whole(SEQUENCE),
  };
}

/** Keys of the logits: their bits, those of negative numbers turned around, so that they order alike. */
export async function scores(launch: Launch, { vocab }: ModelInfo): Promise<Checked | null> {
  const logits = launch.before("logits");
  const keys = launch.after("keys");
  if (!(logits instanceof Float32Array) || keys === undefined) return null;
  const padded = paddedVocab(vocab);
  const width = launch.arguments.get("keys")?.shape[1] ?? 0;
  const words = new Int32Array(logits.buffer, logits.byteOffset, logits.length);
  const equal = Array.from({ length: launch.call.live }, (_, row) =>
    Array.from(words.subarray(row * padded, row * padded + vocab)).every((word, token) => {
      const positive = (word & 0x7fffffff) === 0 ? 0 : word;
      return (
        (keys[row * width + token] ?? 0) === (positive ^ ((positive >> 31) & 0x7fffffff)) >>> 0
      );
    }),
  );
  return EXACT(equal.every(Boolean));
}

/** The mass of the vocabulary where top-k is off, two words of 24 bits a block; otherwise nothing. */
export async function weigh(launch: Launch, { vocab }: ModelInfo): Promise<Checked | null> {
  const logits = launch.buffer("logits");
  const masses = launch.after("masses");
  if (!logits || !masses) return null;
  const padded = paddedVocab(vocab);
  const blocks = launch.arguments.get("masses")?.shape[1] ?? 0;
  const rows = Array.from({ length: launch.call.live }, (_, row) => row);
  const found = rows.map((row) =>
    Array.from({ length: blocks }, (_, block) => 2 * (row * blocks + block)).reduce(
      (all, at) => all + (masses[at] ?? 0) * 2 ** 24 + (masses[at + 1] ?? 0),
      0,
    ),
  );
  const expected = rows.map((row) => {
    const { temperature, topK, topP, minP } = askedBy(launch, row);
    if (!(temperature > 0) || (topK > 0 && topK < vocab)) return 0;
    const of = Array.from(logits.subarray(row * padded, row * padded + vocab));
    const top = of.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
    const shares = of.map((value) => Math.exp((value - top) / temperature));
    const least = topP < 1 ? 0 : minP;
    return 2 ** 30 * shares.reduce((all, share) => all + (share >= least ? share : 0), 0);
  });
  return { error: relativeError(found, expected), bound: FLOAT32 };
}

/** The log-probability of the sampled token, then the largest in order, of equals the first. */
export async function logprobs(launch: Launch, { vocab }: ModelInfo): Promise<Checked | null> {
  const logits = launch.buffer("logits");
  const sampled = launch.buffer("sampled");
  const [found, ids] = [launch.after("logprobs"), launch.after("logprob_ids")];
  if (!logits || !sampled || !found || !ids) return null;
  const padded = paddedVocab(vocab);
  const columns = launch.arguments.get("logprobs")?.shape[1] ?? 0;
  const tokens: number[] = [];
  const expected: number[] = [];
  for (let row = 0; row < launch.call.live; row++) {
    const of = Array.from(logits.subarray(row * padded, row * padded + vocab));
    const order = of.map((_, token) => token).sort((a, b) => (of[b] ?? 0) - (of[a] ?? 0) || a - b);
    const top = of[order[0] ?? 0] ?? Number.NaN;
    const sum = of.reduce((all, value) => all + Math.exp(value - top), 0);
    const wanted = [sampled[row] ?? -1, ...order.slice(0, columns - 1)];
    tokens.push(...wanted);
    expected.push(...wanted.map((token) => (of[token] ?? Number.NaN) - top - Math.log(sum)));
  }
  if (tokens.some((token, at) => ids[at] !== token)) return EXACT(false);
  return { error: relativeError(found, expected), bound: FLOAT32 };
}

/** What was drawn goes to `tokens` and `ring`; a row's count and, in decode, its length grow. */
export async function record(launch: Launch): Promise<Checked | null> {
  const [had, sampled] = [launch.before("table"), launch.before("sampled")];
  const [table, tokens] = [launch.after("table"), launch.after("tokens")];
  const [ring, positions] = [launch.after("ring"), launch.after("positions")];
  const width = launch.arguments.get("table")?.shape[1] ?? 0;
  const grown = launch.call.operation === "decode" ? 1 : 0;
  const equal = Array.from({ length: launch.call.live }, (_, row) => {
    const length = (had?.[row * width + KV_LEN] ?? Number.NaN) + grown;
    const count = had?.[row * width + COUNT] ?? Number.NaN;
    return (
      table?.[row * width + KV_LEN] === length &&
      table?.[row * width + COUNT] === count + 1 &&
      tokens?.[row] === sampled?.[row] &&
      ring?.[row * RING + (count % RING)] === sampled?.[row] &&
      positions?.[row] === length
    );
  });
  return EXACT(equal.every(Boolean));
}
