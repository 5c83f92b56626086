/**
 * What is run: two short conversations, once through every operation in each of its plans.
 *
 * The first is long enough for the plans of many rows, the second short enough for those of few. The
 * first decodes twice, as a short sequence and as one that may come to have many; then both
 * decode together. Tokens are always the host's, so programs can be compared with each
 * other whatever each of them samples.
 */
import * as abi from "../format/abi.ts";
import type { BundleManifest, ModelInfo } from "../format/manifest.ts";
import { groupsOf, pagedState, pagesFor } from "../format/state.ts";
import type { Asked } from "./drawing.ts";
import { integers } from "./numbers.ts";

export type Operation = "embed" | "prefill" | "logits" | "sample" | "logprobs" | "decode";

export interface Call {
  readonly operation: Operation;
  /** Token rows, sequences, logit rows and the most tokens in KV: elements 0 to 3 of `step`. */
  readonly step: { readonly n: number; readonly b: number; readonly r: number; readonly t: number };
  /** Which rows of an output this call computes: the first so many. */
  readonly live: number;
  /** What is written before it, by buffer, `step` aside. */
  readonly inputs: ReadonlyMap<string, Input>;
}

export type Input = Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer>;

/** Value of the load symbol `pages` that the calls need. */
export const PAGES = 8;

const LONG = 24; // more than FEW rows, and more than one page
const SHORT = 7;
const MANY_KEYS = 257; // more than the plan for a short sequence is for

/** A model and the tokens of its pages. */
type Model = ModelInfo & { readonly pageTokens: number; readonly together: number };

interface Conversation {
  readonly tokens: Int32Array<ArrayBuffer>;
  readonly pages: readonly number[];
  readonly slot: number;
}

/** How a row's token is chosen: the likeliest, as models' own files ask for, and without top-k. */
type Asking = Pick<Asked, "temperature" | "topK" | "topP">;
const GREEDY: Asking = { temperature: 0, topK: 0, topP: 1 };
const DEFAULTS: Asking = { temperature: 0.6, topK: 20, topP: 0.95 };
const WARM: Asking = { temperature: 0.7, topK: 0, topP: 0.95 };

/** The calls for a model, in their order; `logprobs`: whether its program has that operation. */
export function scenario(manifest: BundleManifest, logprobs: boolean): Call[] {
  const { pageTokens } = pagedState(manifest);
  const model = { ...manifest.model, pageTokens, together: groupsOf(manifest) };
  const room = Math.min(model.prefillChunk, model.context - 4);
  const tokens = integers(LONG + SHORT + 4, model.vocab, 20_251_121);
  const long = Math.min(LONG, room);
  const short = Math.min(SHORT, room);
  const first = { tokens: tokens.subarray(0, long + 2), pages: [3, 0], slot: 0 };
  const second = { tokens: tokens.subarray(LONG + 2, LONG + 2 + short + 1), pages: [5], slot: 1 };
  const calls = [
    ...prompt(model, first, long, 1),
    sample(model, first, long),
    ...(logprobs ? [LOGPROBS] : []),
    decode(model, [first], [long], [DEFAULTS]),
    decode(model, [first], [long], [DEFAULTS], Math.min(MANY_KEYS, model.context)),
    ...prompt(model, second, short, Math.min(3, model.maxBatch)),
  ];
  if (model.maxBatch > 1)
    calls.push(decode(model, [first, second], [long + 1, short], [GREEDY, WARM]));
  return calls;
}

/** Whose token each row of a step is, and where; a conversation is known by its first page. */
export function rowsOf(call: Call): { readonly conversation: number; readonly position: number }[] {
  const sequences = call.inputs.get("row_seq") ?? [];
  const positions = call.inputs.get("positions") ?? [];
  const written = call.inputs.get("table") ?? [];
  const width = written.length / call.step.b;
  return Array.from({ length: call.step.n }, (_, row) => ({
    conversation: written[(sequences[row] ?? 0) * width + abi.TABLE_HEADER] ?? -1,
    position: positions[row] ?? 0,
  }));
}

/** Of the token just sampled: reads what other operations wrote, and no input. */
const LOGPROBS: Call = {
  operation: "logprobs",
  step: { n: 1, b: 1, r: 1, t: 1 },
  live: 1,
  inputs: new Map(),
};

function prompt(model: Model, of: Conversation, length: number, wanted: number): Call[] {
  const step = { n: length, b: 1, r: 0, t: length };
  const inputs = new Map<string, Input>([
    ["tokens", of.tokens.slice(0, length)],
    ["positions", Int32Array.from({ length }, (_, at) => at)],
    ["row_seq", new Int32Array(length)],
    ...tables(model, [of], [0], length),
  ]);
  const rows = Int32Array.from({ length: wanted }, (_, at) => length - wanted + at);
  return [
    { operation: "embed", step, live: length, inputs },
    { operation: "prefill", step, live: length, inputs },
    {
      operation: "logits",
      step: { ...step, r: wanted },
      live: wanted,
      inputs: new Map([["logit_rows", rows]]),
    },
  ];
}

function sample(model: Model, of: Conversation, length: number): Call {
  return {
    operation: "sample",
    step: { n: 1, b: 1, r: 1, t: length },
    live: 1,
    inputs: new Map<string, Input>([...tables(model, [of], [length], 1), ...asking([GREEDY])]),
  };
}

function decode(
  model: Model,
  all: readonly Conversation[],
  lengths: readonly number[],
  asked: readonly Asking[],
  reach = Math.max(...lengths) + 1,
): Call {
  const count = all.length;
  const each = Int32Array.from({ length: count }, (_, row) => row);
  return {
    operation: "decode",
    step: { n: count, b: count, r: count, t: reach },
    live: count,
    inputs: new Map<string, Input>([
      ["tokens", Int32Array.from(all, (of, row) => of.tokens[lengths[row] ?? 0] ?? 0)],
      ["positions", Int32Array.from(lengths)],
      ["row_seq", each],
      ["logit_rows", each],
      ...tables(model, all, lengths, 1),
      ...asking(asked),
    ]),
  };
}

function asking(rows: readonly Asking[]): [string, Input][] {
  const floats = new Float32Array(rows.length * abi.SAMPLING_WIDTH);
  const ints = new Int32Array(rows.length * abi.SAMPLING_WIDTH);
  rows.forEach(({ temperature, topK, topP }, row) => {
    const at = row * abi.SAMPLING_WIDTH;
    floats[at + abi.TEMPERATURE] = temperature;
    floats[at + abi.TOP_P] = topP;
    floats[at + abi.REPETITION] = 1;
    ints[at + abi.TOP_K] = topK;
    ints[at + abi.SEED_LOW] = 20_261_122;
    ints[at + abi.IGNORE_EOS] = 1;
    ints[at + abi.SEQUENCE] = row;
  });
  return [
    ["sampling_f", floats],
    ["sampling_i", ints],
    ["eos", new Int32Array(abi.STOP_TOKENS).fill(abi.NO_TOKEN)],
  ];
}

/** The tables of all state groups, each with pages of its own. */
function tables(
  model: Model,
  all: readonly Conversation[],
  lengths: readonly number[],
  rows: number,
): [string, Input][] {
  return abi.TABLES.slice(0, model.together).map((name, group) => {
    const mine = all.map((of) => {
      return { ...of, pages: of.pages.map((page) => page * model.together + group) };
    });
    return [name, table(model, mine, lengths, rows)];
  });
}

function table(
  model: Model,
  all: readonly Conversation[],
  lengths: readonly number[],
  rows: number,
): Int32Array<ArrayBuffer> {
  const width = abi.TABLE_HEADER + pagesFor(model.context, model.pageTokens);
  const written = new Int32Array(all.length * width);
  all.forEach((of, row) => {
    const at = row * width;
    written[at + abi.KV_LEN] = lengths[row] ?? 0;
    written[at + abi.Q_START] = row;
    written[at + abi.Q_LEN] = rows;
    written[at + abi.LIMIT] = model.context - 1;
    written[at + abi.SLOT] = of.slot;
    written.set(of.pages, at + abi.TABLE_HEADER);
  });
  return written;
}
