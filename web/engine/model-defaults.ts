/**
 * What a model's generation_config.json says of how its tokens are chosen: obeyed, or named.
 *
 * By the rules of the Python SDK's `model_defaults.py`, which are transformers', but for a file that does not
 * say `do_sample`.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { MAX_BIASES } from "../format/abi.ts";
import { type JsonObject, parseObject } from "./json.ts";
import { MAX_BIAS, type NumberName, type SamplingDefaults, samplingParams } from "./sampling.ts";

const MAX_CONFIG_BYTES = 1 << 20;

/** Our names of what such a file may set, as numbers. */
const NAMES = {
  max_new_tokens: "maxTokens",
  min_new_tokens: "minTokens",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
  temperature: "temperature",
  top_k: "topK",
  top_p: "topP",
} as const satisfies Record<string, NumberName>;
/** What transformers takes for what a file leaves out that says `do_sample`. */
const SAMPLING = { temperature: 1, topK: 50, topP: 1 };
const OTHERWISE_READ = new Set([
  ...Object.keys(NAMES),
  ...["bad_words_ids", "do_sample", "max_length", "stop_strings", "suppress_tokens"],
]);
/** Keys that change no token, or only where beams are searched, which is named by itself. */
const NO_MATTER = new Set(
  (
    "_commit_hash _from_model_config assistant_confidence_threshold assistant_early_exit " +
    "assistant_ensemble_weight assistant_lookbehind bos_token_id cache_config " +
    "cache_implementation compile_config continuous_batching_config decoder_start_token_id " +
    "disable_compile early_stopping eos_token_id is_assistant length_penalty low_memory " +
    "max_cache_len max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule " +
    "output_attentions output_hidden_states output_logits output_scores pad_token_id " +
    "prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values renormalize_logits " +
    "return_dict_in_generate speculation_type target_lookbehind transformers_version use_cache " +
    "use_mtp"
  ).split(" "),
);
/** Values that ask for nothing, besides null, false and what is empty. */
const NEUTRAL = new Map(
  Object.entries({
    diversity_penalty: 0,
    encoder_no_repeat_ngram_size: 0,
    encoder_repetition_penalty: 1,
    epsilon_cutoff: 0,
    eta_cutoff: 0,
    guidance_scale: 1,
    min_length: 0,
    no_repeat_ngram_size: 0,
    num_beam_groups: 1,
    num_beams: 1,
    num_return_sequences: 1,
    typical_p: 1,
  }),
);
const MOST_NAMED = 8;

/** What of a model says which token ids there are. */
export interface Ids {
  readonly vocab: number;
  readonly eos: readonly number[];
}

export interface ModelDefaults {
  readonly defaults: SamplingDefaults;
  /** What the file asks for in vain, as `key=value`, the first few. */
  readonly ignored: readonly string[];
}

/**
 * The defaults that the bytes of a generation_config.json set, by our names; none without a file.
 *
 * What the file leaves out is what transformers takes where it says `do_sample`, and otherwise what
 * `samplingParams` does. Single tokens that are not to come have a bias.
 *
 * @throws EdgewiseError `bundle.generation_config` when the file or a value in it is unusable.
 */
export function defaultsFrom(
  file: Uint8Array | null,
  ids: Ids = { vocab: 2 ** 31, eos: [] },
): ModelDefaults {
  if (file === null) return { defaults: {}, ignored: [] };
  try {
    return read(parseObject(file, MAX_CONFIG_BYTES), ids);
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw new EdgewiseError(
      "bundle.generation_config",
      `The model's generation_config.json cannot be used: ${said}`,
      "Correct the value in the checkpoint and compile it again.",
      { cause },
    );
  }
}

function read(config: JsonObject, ids: Ids): ModelDefaults {
  const given = Object.entries(NAMES).flatMap(([theirs, ours]) => {
    const value = config[theirs];
    return value === undefined || value === null ? [] : [[ours, value] as const];
  });
  const { banned, several } = bannedBy(config, ids);
  const few = banned.length > 0 && banned.length <= MAX_BIASES;
  const stop = config.stop_strings ?? undefined;
  const defaults = {
    ...(config.do_sample === true ? SAMPLING : {}),
    ...Object.fromEntries(given),
    ...(config.do_sample === false ? { temperature: 0 } : {}),
    ...(few ? { logitBias: Object.fromEntries(banned.map((id) => [id, -MAX_BIAS])) } : {}),
    ...(stop === undefined ? {} : { stop: typeof stop === "string" ? [stop] : stop }),
  } as SamplingDefaults;
  samplingParams(defaults);
  const ignored = ignoredOf(config, banned.length, several);
  const length = defaults.maxTokens === undefined ? (config.max_length ?? null) : null;
  if (length === null) return { defaults, ignored };
  if (typeof length === "number" && Number.isInteger(length) && length >= 1) {
    return { defaults: { ...defaults, maxLength: length }, ignored };
  }
  throw new RangeError(`max_length is ${shorten(length)}; it must be a whole number from 1.`);
}

function ignoredOf(config: JsonObject, banned: number, several: number): readonly string[] {
  const named = Object.entries(config)
    .filter(
      ([key, value]) => !OTHERWISE_READ.has(key) && !NO_MATTER.has(key) && !isNeutral(key, value),
    )
    .map(([key, value]) => `${key.slice(0, 80)}=${shorten(value)}`);
  if (banned > MAX_BIASES) named.push(`suppress_tokens and bad_words_ids of ${banned} tokens`);
  if (several > 0) named.push(`bad_words_ids of several tokens each (${several})`);
  const more = named.length - MOST_NAMED;
  return more > 0 ? [...named.slice(0, MOST_NAMED), `${more} more`] : named;
}

function isNeutral(key: string, value: unknown): boolean {
  const nothing = value === null || value === false || value === "" || value === NEUTRAL.get(key);
  return nothing || (typeof value === "object" && Object.keys(value).length === 0);
}

/** Tokens that are never to come, each once, and how many words of several tokens are not. */
function bannedBy(config: JsonObject, ids: Ids) {
  const words = listed(config.bad_words_ids, "bad_words_ids").map((word) =>
    tokensOf(word, "bad_words_ids", ids),
  );
  const suppressed = tokensOf(config.suppress_tokens, "suppress_tokens", ids);
  // As in transformers, the end of the answer is no bad word.
  const single = words.flatMap((word) => (word.length === 1 ? word : []));
  const banned = new Set([...suppressed, ...single.filter((id) => !ids.eos.includes(id))]);
  return { banned: [...banned], several: words.filter((word) => word.length > 1).length };
}

function tokensOf(value: unknown, key: string, { vocab }: Ids): readonly number[] {
  return listed(value, key).map((id) => {
    if (typeof id === "number" && Number.isInteger(id) && id >= 0 && id < vocab) return id;
    throw new RangeError(`${key} has ${shorten(id)}, which is no token id of this model.`);
  });
}

function listed(value: unknown, key: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  throw new TypeError(`${key} is ${shorten(value)}; it must be a list.`);
}
