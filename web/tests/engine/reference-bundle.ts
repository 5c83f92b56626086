/** What the reference program says of itself, and what a test may want of it. */

import { PAGE_TOKENS } from "../../format/abi.ts";
import type { BundleManifest, Entry, Program, StateGroup } from "../../format/manifest.ts";
import { EOS, VOCAB } from "./expected.ts";

const GROUP: StateGroup = {
  kind: "paged",
  layers: [0],
  window: null,
  pageTokens: PAGE_TOKENS,
  kvHeads: 1,
  headDim: 1,
  buffers: ["kv.0"],
  scales: [],
};

export interface ReferenceOptions {
  readonly pages: number;
  /** Pages that the device has room for. */
  readonly room?: number;
  readonly context?: number;
  readonly maxBatch?: number;
  readonly prefillChunk?: number;
  readonly eos?: readonly number[];
  /** The windows of its state groups; one without where nothing is said. */
  readonly windows?: readonly (number | null)[];
  /** Whether logits can be had without a draw; true where nothing is said. */
  readonly forward?: boolean;
  /** The token after which no logits are finite. */
  readonly spoiler?: number;
  /** Resolves when the results of one more run may arrive. */
  readonly arrive?: (run: RunRecord) => Promise<void>;
}

/** One call of `run`, and how many before it had not been answered yet. */
export interface RunRecord {
  readonly plans: readonly string[];
  readonly k: number;
  readonly rows: number;
  readonly ahead: number;
  /** Buffers written since the run before. */
  readonly written: readonly string[];
}

export function model(options: ReferenceOptions): BundleManifest {
  const { context = 256, maxBatch = 4, prefillChunk = 64, eos = EOS } = options;
  const { windows = [null] } = options;
  const sizes = { hidden: 1, layers: 1, heads: 1, kvHeads: 1, headDim: 1, intermediate: 1 };
  return {
    name: "reference",
    model: {
      family: "reference",
      vocab: VOCAB,
      context,
      maxBatch,
      prefillChunk,
      bos: null,
      eos,
      quant: "f32",
      recipe: null,
      ...sizes,
    },
    weightsId: "",
    createdBy: new Map(),
    stateGroups: windows.map((window, nth) => ({ ...GROUP, layers: [nth], window })),
    layouts: new Map(),
    programs: [],
    files: new Map(),
  };
}

function entry(plan: string, symbol: string, low: number, high: number): Entry {
  return { when: new Map([[symbol, [low, high]]]), plan };
}

export function program(prefillChunk: number, maxBatch: number, forward = true): Program {
  const entries = new Map<string, readonly Entry[]>([
    ["embed", [entry("embed", "n", 1, prefillChunk)]],
    ["prefill", [entry("prefill.16", "n", 1, 16), entry("prefill", "n", 17, prefillChunk)]],
    ["logits", [entry("logits", "r", 1, maxBatch)]],
    ["sample", [entry("sample", "b", 1, maxBatch)]],
    ...(forward ? [["forward", [entry("forward", "b", 1, maxBatch)]] as const] : []),
    ["logprobs", [entry("logprobs", "b", 1, maxBatch)]],
    ["decode", [entry("decode.1", "b", 1, 1), entry("decode", "b", 2, maxBatch)]],
  ]);
  return {
    id: "reference",
    target: "webgpu",
    arithmetic: "f32",
    layout: "gpu",
    needs: { arch: null, features: [] },
    library: null,
    plans: new Map(),
    entries,
    stateDtype: "float16",
    pageBytes: [2 * PAGE_TOKENS * 2],
    decodeAgrees: false,
    shaders: new Map(),
    signature: null,
  };
}
