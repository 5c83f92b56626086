/**
 * What kernels should have computed, in float64, on a few rows and columns.
 *
 * Inputs are what the launches before actually wrote, so an error stays with the kernel that made
 * it. A kernel is known by the first words of its name, its sizes by its arguments.
 */
import { type ModelInfo, SCHEMES } from "../format/manifest.ts";
import type { Launch } from "./launch.ts";
import { relativeError, roundToCodes, roundToHalf } from "./numbers.ts";
import { drawing, logprobs, record, scores, weigh } from "./references-sampling.ts";
import { rowsOf } from "./scenario.ts";

export interface Checked {
  /** Largest difference over the reference's root mean square; whole numbers: 0 or infinite. */
  readonly error: number;
  /** What it may be. */
  readonly bound: number;
}

/** Null where the launch cannot be checked by itself. */
export type Reference = (launch: Launch, keys: Keys) => Promise<Checked | null>;

/** Sums of a few thousand float32 products, in whatever order. */
const FLOAT32 = 1e-4;
/** One rounded product. */
const DEQUANTIZED = 1e-6;
/** Entries of tiles rounded to float16. */
const FLOAT16_TILES = 5e-3;
/** Products of two sums of such tiles: the largest are several times their root mean square. */
const FLOAT16_GATED = 2e-2;
/** Keys and values that may have been rounded the other way. */
const FLOAT16_PAGES = 2e-3;
/** The same of int8 codes, one of which may be an eighteenth of what a head's numbers are like. */
const INT8_PAGES = 6e-2;

/** Rotated keys and values of every token so far, as pages hold them, by layer and conversation. */
export type Keys = Map<string, { readonly key: Float64Array; readonly value: Float64Array }[]>;

/** References by the beginning of a kernel's name; the first that fits. */
export function references(model: ModelInfo): readonly [RegExp, Reference][] {
  return [
    [/^embed_/, embed],
    [/^rms_norm_/, rmsNorm],
    [
      new RegExp(`^(matmul|matvec|serial)_(${SCHEMES.join("|")})_`),
      (launch, keys) => linear(launch, model, keys),
    ],
    [/^rope_append_/, (launch, keys) => ropeAppend(launch, model, keys)],
    [/^attention_(prefill|merge|near)_/, (launch, keys) => attention(launch, model, keys)],
    [/^scores_/, (launch) => scores(launch, model)],
    [/^weigh_/, (launch) => weigh(launch, model)],
    [/^(draw|whole)_/, (launch) => drawing(launch, model)],
    [/^record_/, record],
    [/^logprobs_/, (launch) => logprobs(launch, model)],
  ];
}

async function embed(launch: Launch): Promise<Checked | null> {
  const tokens = launch.before("tokens");
  const x = rows(launch.after("x"), launch, "x");
  const tables = [...launch.kernel.matchAll(/_(\d+)x\d+_from(\d+)/g)].map(([, rows, first]) => ({
    rows: Number(rows),
    first: Number(first),
  }));
  let error = 0;
  for (const row of some(launch.call.live)) {
    const id = tokens?.[row] ?? -1;
    const part = tables.findIndex(({ rows, first }) => id >= first && id < first + rows);
    if (part < 0) continue; // of a part that another launch has
    const expected = await launch.weightRow(id - (tables[part]?.first ?? 0), part);
    error = Math.max(error, relativeError(x(row), expected));
  }
  return { error, bound: DEQUANTIZED };
}

async function rmsNorm(launch: Launch): Promise<Checked | null> {
  const x = rows(launch.before("x"), launch, "x");
  const y = rows(launch.after("y"), launch, "y");
  const eps = numberAfter(launch.kernel, /_e(\d+p\d+em?\d+)/);
  const weight = await launch.parameter("weight");
  const from = launch.before("logit_rows");
  if (eps === null) return null;
  const errors = some(launch.call.live).map((row) =>
    relativeError(y(row), normalized(x(from?.[row] ?? row), weight, eps)),
  );
  return { error: Math.max(...errors), bound: FLOAT32 };
}

async function linear(launch: Launch, model: ModelInfo, keys: Keys): Promise<Checked | null> {
  const attention = launch.kernel.includes("_joined_") ? attentionBefore(launch) : null;
  const heads = attention && (await attended(attention, launch, model, keys));
  if (attention && !heads) return null;
  // What joins attention's segments has no rows of x but what attention would leave there.
  const x = heads
    ? (row: number) =>
        Float64Array.from([...Array(model.heads).keys()].flatMap((head) => [...heads(row, head)]))
    : rows(launch.before("x"), launch, "x");
  const out = rows(launch.after("out"), launch, "out");
  const had = rows(launch.before("out"), launch, "out");
  const norm = launch.arguments.has("norm") ? await launch.parameter("norm") : null;
  const bias = launch.arguments.has("bias") ? await launch.parameter("bias") : null;
  const eps = norm ? numberAfter(launch.kernel, /_n(\d+(?:p\d+)?(?:em?\d+)?)_/) : 0;
  const first = Number(/_o\d+_(\d+)/.exec(launch.kernel)?.[1] ?? 0);
  const from = launch.before("logit_rows");
  const swiglu = launch.kernel.includes("_swiglu_");
  const add = launch.kernel.includes("_add_");
  const height = launch.arguments.get("weight")?.shape[0] ?? 0;
  if (eps === null) return null;
  const columns = some(swiglu ? height / 2 : height, 6);
  const found: number[] = [];
  const expected: number[] = [];
  for (const row of some(launch.call.live)) {
    const input = x(from?.[row] ?? row);
    const operand = norm ? normalized(input, norm, eps) : input;
    for (const column of columns) {
      const dot = async (at: number) =>
        product(await launch.weightRow(at), operand) + (bias?.[at] ?? 0);
      const at = (swiglu ? first / 2 : first) + column;
      found.push(out(row)[at] ?? Number.NaN);
      if (swiglu) {
        const gate = 32 * Math.floor(column / 16) + (column % 16); // panels of 16 alternate
        const [g, u] = [await dot(gate), await dot(gate + 16)];
        expected.push((g / (1 + Math.exp(-g))) * u);
      } else {
        expected.push((await dot(column)) + (add ? (had(row)[at] ?? Number.NaN) : 0));
      }
    }
  }
  const tiles = swiglu ? FLOAT16_GATED : FLOAT16_TILES;
  const bound = launch.kernel.includes("_half") ? tiles : FLOAT32;
  const pages = attention ? pagesBound(attention.kernel) : 0;
  return { error: relativeError(found, expected), bound: Math.max(bound, pages) };
}

/** Heads of a row of the projection, normalized and rotated; null where a name does not say how. */
async function rotation(launch: Launch, { heads, headDim }: ModelInfo) {
  const before = rows(launch.before("qkv"), launch, "qkv");
  const norm = launch.arguments.has("qk_norm") ? await launch.parameter("qk_norm") : null;
  const eps = norm ? numberAfter(launch.kernel, /_norm(\d+(?:p\d+)?(?:em?\d+)?)/) : 0;
  const rope = await launch.parameter("rope");
  const half = headDim / 2;
  if (eps === null) return null;
  const gainOf = (head: number, d: number) =>
    norm?.[(head < heads ? 0 : 1) * headDim + d] ?? Number.NaN;
  return (row: number, position: number, head: number): Float64Array => {
    const raw = before(row).subarray(head * headDim, (head + 1) * headDim);
    const gain = norm ? Array.from({ length: headDim }, (_, d) => gainOf(head, d)) : null;
    const vector = gain ? normalized(raw, gain, eps) : Float64Array.from(raw);
    const turned = new Float64Array(headDim);
    for (let i = 0; i < half; i++) {
      const cos = rope[(position * 2 + 0) * half + i] ?? Number.NaN;
      const sin = rope[(position * 2 + 1) * half + i] ?? Number.NaN;
      const [a, b] = [vector[i] ?? 0, vector[half + i] ?? 0];
      turned[i] = a * cos - b * sin;
      turned[half + i] = b * cos + a * sin;
    }
    return turned;
  };
}

/** Notes what a launch appends to the pages; what it rotates queries by, or null. */
async function appended(launch: Launch, model: ModelInfo, keys: Keys) {
  const { heads, kvHeads, headDim } = model;
  const rotated = await rotation(launch, model);
  if (!rotated) return null;
  const before = rows(launch.before("qkv"), launch, "qkv");
  const stored = storing(launch.kernel);
  rowsOf(launch.call).forEach(({ conversation, position }, row) => {
    const all = before(row);
    const key = Array.from({ length: kvHeads }, (_, h) => [
      ...stored(rotated(row, position, heads + h)),
    ]);
    const value = Array.from({ length: kvHeads }, (_, h) => {
      const begin = (heads + kvHeads + h) * headDim;
      return [...stored(all.subarray(begin, begin + headDim))];
    });
    const name = `${launch.layer}/${conversation}`;
    const history = keys.get(name) ?? [];
    history[position] = {
      key: Float64Array.from(key.flat()),
      value: Float64Array.from(value.flat()),
    };
    keys.set(name, history);
  });
  return rotated;
}

async function ropeAppend(launch: Launch, model: ModelInfo, keys: Keys): Promise<Checked | null> {
  const rotated = await appended(launch, model, keys);
  const after = rows(launch.after("qkv"), launch, "qkv");
  const { heads, headDim } = model;
  if (!rotated) return null;
  let error = 0;
  rowsOf(launch.call).forEach(({ position }, row) => {
    for (const head of [0, heads - 1]) {
      const found = after(row).subarray(head * headDim, (head + 1) * headDim);
      error = Math.max(error, relativeError(found, rotated(row, position, head)));
    }
  });
  return { error, bound: FLOAT32 };
}

async function attention(launch: Launch, model: ModelInfo, keys: Keys): Promise<Checked | null> {
  const { heads, headDim } = model;
  // A merge reads partial results, which the launch before it made of the queries.
  const source = launch.arguments.has("qkv") ? launch : launch.previous;
  const out = rows(launch.after("out"), launch, "out");
  const expected = source && (await attended(source, launch, model, keys));
  if (!expected) return null;
  let error = 0;
  for (const row of some(launch.call.live)) {
    for (const head of [0, heads - 1]) {
      const found = out(row).subarray(head * headDim, (head + 1) * headDim);
      error = Math.max(error, relativeError(found, expected(row, head)));
    }
  }
  return { error, bound: pagesBound(source.kernel) };
}

/** What attention of queries that `source` reads is, by row and head; null where that is not known. */
async function attended(
  source: Launch,
  { layer, call }: Launch,
  model: ModelInfo,
  keys: Keys,
): Promise<((row: number, head: number) => Float64Array) | null> {
  const { heads, kvHeads, headDim } = model;
  const queries = source.before("qkv");
  const width = (heads + 2 * kvHeads) * headDim;
  if (!queries) return null;
  const alone = source.arguments.has("rope");
  const rotated = alone ? await appended(source, model, keys) : null;
  if (alone && !rotated) return null;
  const scale = scaleOf(source.kernel, headDim);
  const positions = rowsOf(call);
  return (row, head) => {
    const { conversation, position } = positions[row] ?? { conversation: -1, position: 0 };
    const history = keys.get(`${layer}/${conversation}`)?.slice(0, position + 1) ?? [];
    const begin = row * width + head * headDim;
    const query =
      rotated?.(row, position, head) ?? Float64Array.from(queries.subarray(begin, begin + headDim));
    const of = Math.floor(head / (heads / kvHeads)) * headDim;
    const scores = history.map(({ key }) => product(key.subarray(of, of + headDim), query) * scale);
    return weighted(scores, (at, d) => history[at]?.value[of + d] ?? 0, headDim);
  };
}

/** The launch before a linear, or before the first of its parts. */
function attentionBefore(launch: Launch): Launch | null {
  let found = launch.previous;
  while (found?.arguments.has("weight")) found = found.previous;
  return found;
}

/** How pages keep a head's numbers, by the dtype in the name of a kernel that sees them. */
function storing(kernel: string): (head: Float64Array) => ArrayLike<number> & Iterable<number> {
  if (kernel.includes("_int8")) return roundToCodes;
  return kernel.includes("_float16") ? (head) => head.map(roundToHalf) : (head) => head;
}

function pagesBound(kernel: string): number {
  if (kernel.includes("_int8")) return INT8_PAGES;
  return kernel.includes("_float16") ? FLOAT16_PAGES : FLOAT32;
}

/** Softmax of the scores, and the values weighted by it. */
function weighted(
  scores: readonly number[],
  value: (at: number, d: number) => number,
  width: number,
): Float64Array {
  const top = Math.max(...scores);
  const shares = scores.map((score) => Math.exp(score - top));
  const total = shares.reduce((sum, share) => sum + share, 0);
  return Float64Array.from({ length: width }, (_, d) =>
    shares.reduce((sum, share, at) => sum + (share / total) * value(at, d), 0),
  );
}

/** The first, a middle and the last of `count`, or `wanted` spread over them. */
export function some(count: number, wanted = 3): number[] {
  const most = Math.min(count, wanted);
  const at = (i: number) => (most > 1 ? Math.round((i * (count - 1)) / (most - 1)) : 0);
  return Array.from({ length: most }, (_, i) => at(i));
}

function rows(data: ArrayLike<number> | undefined, launch: Launch, name: string) {
  const width = launch.arguments.get(name)?.shape[1] ?? 0;
  return (row: number): Float64Array =>
    Float64Array.from({ length: width }, (_, i) => data?.[row * width + i] ?? Number.NaN);
}

function normalized(x: ArrayLike<number>, weight: ArrayLike<number>, eps: number): Float64Array {
  const inverse = 1 / Math.sqrt(product(x, x) / x.length + eps);
  return Float64Array.from(x, (value, i) => value * inverse * (weight[i] ?? Number.NaN));
}

function product(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? Number.NaN);
  return sum;
}

/** A number as kernels' names spell it, `1p000em05` for 1.000e-05; null where there is none. */
export function numberAfter(kernel: string, pattern: RegExp): number | null {
  const text = pattern.exec(kernel)?.[1];
  return text === undefined ? null : Number(text.replace("p", ".").replace("m", "-"));
}

/** Attention's factor, the last word of its kernel's name; otherwise one over √head_dim. */
function scaleOf(kernel: string, headDim: number): number {
  return (
    numberAfter(kernel, /_(?:float16(?:x2)?|float32|int8)_(\d+p\d+(?:em?\d+)?)/) ??
    1 / Math.sqrt(headDim)
  );
}
