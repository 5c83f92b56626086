/** What the kernels after the logits should have computed: tokens, their record, probabilities. */
import { COUNT, KV_LEN, paddedVocab, RING } from "../format/abi.ts";
import type { ModelInfo } from "../format/manifest.ts";
import type { Launch } from "./launch.ts";
import { relativeError } from "./numbers.ts";
import type { Checked } from "./references.ts";

/** A sum of float32 probabilities, in whatever order. */
const FLOAT32 = 1e-4;

const EXACT = (equal: boolean): Checked => ({
  error: equal ? 0 : Number.POSITIVE_INFINITY,
  bound: 0,
});

/** Greedy: the token drawn is the first of the largest logits. */
export async function draw(launch: Launch, { vocab }: ModelInfo): Promise<Checked | null> {
  const logits = launch.buffer("logits");
  const sampled = launch.after("sampled");
  if (logits === undefined || sampled === undefined) return null;
  const padded = paddedVocab(vocab);
  const equal = Array.from({ length: launch.call.live }, (_, row) => {
    const of = Array.from(logits.subarray(row * padded, row * padded + vocab));
    return (
      sampled[row] ===
      of.indexOf(of.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY))
    );
  });
  return EXACT(equal.every(Boolean));
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
