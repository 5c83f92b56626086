/** `bundle.json` as readonly data: what a bundle says about itself. `manifest-reader.ts` reads it. */

/** Bytes of a piece of a larger file that has a sha256 of its own. */
export const CHUNK_BYTES = 32 << 20;

/** How weights are stored, by the names that kernels have for it. */
export const SCHEMES = [
  "f32",
  "f16",
  "q8",
  "q6",
  "q6_nl",
  "q5",
  "q5_nl",
  "q4",
  "q4_nl",
  "q4a",
  "q4k",
  "iq4_nl",
  "mxfp4",
] as const;
export type Scheme = (typeof SCHEMES)[number];

export interface ModelInfo {
  readonly family: string;
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly intermediate: number;
  readonly vocab: number;
  /** The static bounds C, B and N of every plan. */
  readonly context: number;
  readonly maxBatch: number;
  readonly prefillChunk: number;
  readonly bos: number | null;
  readonly eos: readonly number[];
  /** The scheme of the weights; with a recipe, of those that the recipe does not mention. */
  readonly quant: string;
  /** What the recipe is called by which each tensor has its own scheme. */
  readonly recipe: string | null;
}

/** How weights are stored, in a word: the recipe, or the scheme of all of them. */
export function storedAs(model: ModelInfo): string {
  return model.recipe ?? model.quant;
}

/**
 * Layers that keep their state alike; `buffers` names one state buffer per layer, `scales` one more
 * that programs with int8 state have; empty where no program of the bundle does. Which groups can
 * be run is said in `state.ts`.
 */
export interface StateGroup {
  readonly kind: "paged" | "recurrent";
  readonly layers: readonly number[];
  readonly window: number | null;
  readonly pageTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly buffers: readonly string[];
  readonly scales: readonly string[];
}

/** Where a packed tensor lies; `offset` counts bytes from the start of the file. */
export interface TensorEntry {
  readonly file: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly offset: number;
  readonly bytes: number;
}

export interface Needs {
  readonly arch: string | null;
  readonly features: readonly string[];
}

/** The plan to call while every symbol in `when` is in its inclusive range. */
export interface Entry {
  readonly when: ReadonlyMap<string, readonly [number, number]>;
  readonly plan: string;
}

export interface Program {
  readonly id: string;
  readonly target: string;
  readonly arithmetic: string;
  readonly layout: string;
  readonly needs: Needs;
  readonly library: string | null;
  /** Plan name to path. */
  readonly plans: ReadonlyMap<string, string>;
  readonly entries: ReadonlyMap<string, readonly Entry[]>;
  readonly stateDtype: "float32" | "float16" | "int8";
  /** For each state group, bytes of a page in all its buffers, scales included. */
  readonly pageBytes: readonly number[];
  /** Decode writes the bits into KV that prefill would. */
  readonly decodeAgrees: boolean;
  /** Kernel name to path. */
  readonly shaders: ReadonlyMap<string, string>;
  readonly signature: string | null;
}

export interface FileEntry {
  readonly bytes: number;
  readonly sha256: string;
  /** sha256 of each 32 MiB of a file larger than that, in order; otherwise empty. */
  readonly chunks: readonly string[];
}

export interface BundleManifest {
  readonly name: string;
  readonly model: ModelInfo;
  readonly weightsId: string;
  readonly createdBy: ReadonlyMap<string, string>;
  readonly stateGroups: readonly StateGroup[];
  readonly layouts: ReadonlyMap<string, ReadonlyMap<string, TensorEntry>>;
  readonly programs: readonly Program[];
  readonly files: ReadonlyMap<string, FileEntry>;
}
