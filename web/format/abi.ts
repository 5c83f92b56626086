/**
 * What lies where in the buffers that the host and compiled programs share: part of the bundle
 * format, and the same numbers as Python's `format/abi.py`, where each is explained.
 *
 * Rows of `table` describe sequences, rows of `tokens`, `positions` and `row_seq` the tokens of a
 * step, and `step` says how many of each there are.
 */

import type { Role } from "./plan.ts";

/** Tokens of a page that kernels are compiled for; ask `pagedState` what a bundle's have. */
export const PAGE_TOKENS = 16;

/** Pages of a pool at most, whatever the memory: more than any plan allows. */
export const MAX_PAGES = 1 << 16;

/** Bytes of a buffer that kernels can count elements of, at most, in 32 bits. */
export const MAX_BINDING = 2 ** 32;

/** Columns of a weight, or of activations, that share one scale. */
export const GROUP = 32;

/** Rows of a weight that lie beside each other in the `cpu` layout. */
export const PANEL = 16;

/** Fields of `step`, and their places: rows, sequences, logit rows, the most tokens in KV. */
export const STEP_WIDTH = 8;
export const ROWS = 0;
export const SEQUENCES = 1;
export const LOGIT_ROWS = 2;
export const REACH = 3;

/** The plans' symbols for those fields, in their order. */
export const STEP_SYMBOLS: readonly string[] = ["n", "b", "r", "t"];

/** Fields of a row of `table` before its page ids, and their places. */
export const TABLE_HEADER = 8;
export const KV_LEN = 0;
export const Q_START = 1;
export const Q_LEN = 2;
export const STOP = 3;
export const LIMIT = 4;
export const COUNT = 5;
export const SLOT = 6;

/** The table of each state group, with its pages; the rows of all of them begin with the same header. */
export const TABLES: readonly string[] = [
  "table",
  ...Array.from({ length: 7 }, (_, nth) => `table.${nth + 1}`),
];

/** Why a sequence has stopped: at an end token, at its limit, where nothing could be drawn. */
export const AT_END = 1;
export const AT_LIMIT = 2;
export const AT_FAULT = 3;

/** Columns of `ring`: tokens that a burst can draw, at most. */
export const RING = 64;

/** Entries of `eos`; what is no token stands in the rest. */
export const STOP_TOKENS = 16;
export const NO_TOKEN = -1;

/** What is drawn instead of a token where logits are not finite: the last that a sequence draws. */
export const NOT_FINITE = -2;

/** Columns of `biases`. */
export const MAX_BIASES = 320;

/** Rows of a sequence's `biases`: tokens, and what is added to each, the bits of a float32. */
export const BIAS_IDS = 0;
export const BIAS_VALUES = 1;

/** Columns of `sampling_f` and `sampling_i`, and their places. */
export const SAMPLING_WIDTH = 8;
export const TEMPERATURE = 0;
export const TOP_P = 1;
export const MIN_P = 2;
export const REPETITION = 3;
export const PRESENCE = 4;
export const FREQUENCY = 5;
export const TOP_K = 0;
export const SEED_LOW = 1;
export const SEED_HIGH = 2;
export const BIASES = 3;
export const IGNORE_EOS = 4;
export const SEQUENCE = 5;
/** 1 where a row draws only what its `grammar_mask` allows. */
export const MASKED = 6;

/** Tokens of a word of `grammar_mask`; the first is the lowest bit. */
export const MASK_BITS = 32;

/** The likeliest tokens whose log-probability is told, and with the one drawn before them. */
export const TOP_LOGPROBS = 20;
export const LOGPROBS = 1 + TOP_LOGPROBS;

/** Most token rows and sequences of a step, pages of a sequence, and the model's sizes. */
export interface StepBounds {
  readonly rows: number;
  readonly batch: number;
  readonly pages: number;
  readonly hidden: number;
  readonly vocab: number;
  /** State groups; 1 unless said. */
  readonly groups?: number;
}

export type SharedBuffer = readonly [role: Role, dtype: string, shape: readonly number[]];

/** Every buffer that the host and a program share, by name, but for the pages. */
export function sharedBuffers(bounds: StepBounds): ReadonlyMap<string, SharedBuffer> {
  const { rows, batch, pages, hidden, vocab, groups = 1 } = bounds;
  const table: SharedBuffer = ["input", "int32", [batch, TABLE_HEADER + pages]];
  return new Map<string, SharedBuffer>([
    ["step", ["input", "int32", [STEP_WIDTH]]],
    ["tokens", ["input", "int32", [rows]]],
    ["positions", ["input", "int32", [rows, 1]]],
    ["row_seq", ["input", "int32", [rows]]],
    ["logit_rows", ["input", "int32", [batch]]],
    ...TABLES.slice(0, groups).map((name) => [name, table] as const),
    ["ring", ["input", "int32", [batch, RING]]],
    ["eos", ["input", "int32", [STOP_TOKENS]]],
    ["sampling_f", ["input", "float32", [batch, SAMPLING_WIDTH]]],
    ["sampling_i", ["input", "int32", [batch, SAMPLING_WIDTH]]],
    ["biases", ["input", "int32", [batch, 2, MAX_BIASES]]],
    ["grammar_mask", ["input", "int32", [batch, maskWords(vocab)]]],
    ["x", ["output", "float32", [rows, hidden]]],
    ["logits", ["output", "float32", [batch, paddedVocab(vocab)]]],
    ["hidden", ["output", "float32", [batch, hidden]]],
    ["sampled", ["output", "int32", [batch]]],
    ["logprobs", ["output", "float32", [batch, LOGPROBS]]],
    ["logprob_ids", ["output", "int32", [batch, LOGPROBS]]],
    ["counts", ["state", "int32", [batch, vocab]]],
  ]);
}

/** Columns of `logits`: the vocabulary rounded up to whole groups. */
export function paddedVocab(vocab: number): number {
  return Math.ceil(vocab / GROUP) * GROUP;
}

/** Words of a row of `grammar_mask`. */
export function maskWords(vocab: number): number {
  return Math.ceil(vocab / MASK_BITS);
}
