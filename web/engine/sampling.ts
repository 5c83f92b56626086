/** What a caller may ask of one generation, every value checked where it enters. */

import type { GenerateOptions } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { MAX_BIASES, TOP_LOGPROBS } from "../format/abi.ts";

export const MAX_STOPS = 64;
export const MAX_STOP_CHARACTERS = 1000;
/** Temperatures below this choose the likeliest token: dividing by them would overflow. */
export const GREEDY_BELOW = 1e-4;

const MAX_INT = 2 ** 31 - 1;
const MAX_SEED = (1n << 64n) - 1n;
/** Added to a logit it keeps the token from coming, or from anything else to come. */
export const MAX_BIAS = 1e4;

/**
 * How the next token is chosen and when to end, complete and checked.
 *
 * Applied in this order: penalties, logit bias, temperature, top-k, top-p, min-p, draw. What each
 * field means is said at `GenerateOptions`.
 */
export interface SamplingParams {
  readonly maxTokens: number;
  readonly minTokens: number;
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly logitBias: ReadonlyMap<number, number>;
  /** Below 2^64; undefined: any. */
  readonly seed: bigint | undefined;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly ignoreEos: boolean;
  readonly logprobs: boolean;
  readonly topLogprobs: number;
  readonly priority: number;
}

/** What a model's generation_config.json sets. */
export interface SamplingDefaults extends Partial<Readonly<Record<NumberName, number>>> {
  readonly logitBias?: Readonly<Record<number, number>>;
  readonly stop?: readonly string[];
  /** Tokens of prompt and answer together, where nobody says `maxTokens`. */
  readonly maxLength?: number;
}

export type NumberName = keyof typeof NUMBERS;

interface Range {
  readonly low: number;
  readonly high: number;
  readonly whole: boolean;
  readonly otherwise: number;
}

const NUMBERS = {
  maxTokens: { low: 0, high: MAX_INT, whole: true, otherwise: 256 },
  minTokens: { low: 0, high: MAX_INT, whole: true, otherwise: 0 },
  temperature: { low: 0, high: 100, whole: false, otherwise: 0.7 },
  topK: { low: -1, high: MAX_INT, whole: true, otherwise: 0 },
  topP: { low: 0, high: 1, whole: false, otherwise: 0.95 },
  minP: { low: 0, high: 1, whole: false, otherwise: 0 },
  repetitionPenalty: { low: 0.01, high: 100, whole: false, otherwise: 1 },
  presencePenalty: { low: -100, high: 100, whole: false, otherwise: 0 },
  frequencyPenalty: { low: -100, high: 100, whole: false, otherwise: 0 },
  topLogprobs: { low: 0, high: TOP_LOGPROBS, whole: true, otherwise: 0 },
  priority: { low: -(2 ** 31), high: 2 ** 31, whole: true, otherwise: 0 },
} as const satisfies Record<string, Range>;

const OTHERS: readonly string[] = [
  "logitBias",
  "seed",
  "stop",
  "stopTokenIds",
  "ignoreEos",
  "logprobs",
];

/**
 * The parameters of one call: `given` ones that are neither undefined nor null, then `defaults`.
 *
 * @throws EdgewiseError `input.sampling` for an unknown name or a value out of range.
 */
export function samplingParams(
  defaults: SamplingDefaults,
  given: Omit<GenerateOptions, "signal"> = {},
): SamplingParams {
  const names = [...Object.keys(NUMBERS), ...OTHERS];
  const unknown = Object.keys(given).find((name) => name !== "signal" && !names.includes(name));
  if (unknown !== undefined) {
    throw new EdgewiseError(
      "input.sampling",
      `There is no sampling parameter ${shorten(unknown)}.`,
      `There are ${names.sort().join(", ")}.`,
    );
  }
  const number = (name: NumberName): number => {
    const range: Range = NUMBERS[name];
    return checkNumber(name, given[name] ?? defaults[name] ?? range.otherwise, range);
  };
  const ignoreEos = checkBoolean("ignoreEos", given.ignoreEos ?? false);
  const logprobs = checkBoolean("logprobs", given.logprobs ?? false);
  const topLogprobs = number("topLogprobs");
  if (topLogprobs > 0 && !logprobs) {
    throw wrong("topLogprobs", topLogprobs, "0 unless logprobs is true");
  }
  return {
    maxTokens: number("maxTokens"),
    minTokens: number("minTokens"),
    temperature: number("temperature"),
    topK: Math.max(number("topK"), 0), // -1 says that it is off, as 0 does
    topP: number("topP"),
    minP: number("minP"),
    repetitionPenalty: number("repetitionPenalty"),
    presencePenalty: number("presencePenalty"),
    frequencyPenalty: number("frequencyPenalty"),
    logitBias: checkBiases({
      ...defaults.logitBias,
      ...Object.fromEntries(checkBiases(given.logitBias ?? {})),
    }),
    seed: checkSeed(given.seed ?? undefined),
    stop: checkStops(given.stop ?? defaults.stop ?? []),
    stopTokenIds: checkStopTokens(given.stopTokenIds ?? []),
    ignoreEos,
    logprobs,
    topLogprobs,
    priority: number("priority"),
  };
}

/** Whether the likeliest token is always chosen. */
export function isGreedy(params: SamplingParams): boolean {
  return params.temperature < GREEDY_BELOW || params.topP === 0;
}

/** The parameters with tokens that never come. @throws EdgewiseError `input.sampling` for too many biases. */
export function without(params: SamplingParams, tokens: Iterable<number>): SamplingParams {
  const never = [...tokens].map((token): [number, number] => [token, -MAX_BIAS]);
  return { ...params, logitBias: checkBiases(Object.fromEntries([...params.logitBias, ...never])) };
}

/** Whether tokens seen before count. */
export function isPenalized(params: SamplingParams): boolean {
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = params;
  return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
}

function checkNumber(name: string, value: unknown, { low, high, whole }: Range): number {
  const fits = typeof value === "number" && value >= low && value <= high;
  if (fits && (!whole || Number.isInteger(value))) return value;
  throw wrong(name, value, `${whole ? "a whole number" : "a number"} from ${low} to ${high}`);
}

function checkBoolean(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw wrong(name, value, "true or false");
}

function checkSeed(value: unknown): bigint | undefined {
  if (value === undefined || value === -1 || value === -1n) return undefined;
  const fits =
    typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value));
  const seed = fits ? BigInt(value) : -1n;
  if (seed >= 0n && seed <= MAX_SEED) return seed;
  const shown = typeof value === "bigint" ? `${value}n` : value;
  throw wrong("seed", shown, `a whole number from 0 to ${MAX_SEED}, a bigint above 2^53`);
}

function checkBiases(value: unknown): Map<number, number> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw wrong("logitBias", value, "an object from token id to number");
  }
  const entries = Object.entries(value);
  if (entries.length > MAX_BIASES) {
    throw wrong("the size of logitBias", entries.length, `at most ${MAX_BIASES}`);
  }
  const tokens = { low: 0, high: MAX_INT, whole: true, otherwise: 0 };
  const biases = { low: -MAX_BIAS, high: MAX_BIAS, whole: false, otherwise: 0 };
  return new Map(
    entries.map(([key, bias]) => {
      const id: unknown = /^\d+$/.test(key) ? Number(key) : key;
      const token = checkNumber("logitBias's token id", id, tokens);
      return [token, checkNumber(`logitBias[${token}]`, bias, biases)];
    }),
  );
}

function checkStops(value: unknown): string[] {
  const stops: unknown = typeof value === "string" ? [value] : value;
  if (!Array.isArray(stops)) throw wrong("stop", value, "text or a list of texts");
  if (stops.length > MAX_STOPS) throw wrong("stop.length", stops.length, `at most ${MAX_STOPS}`);
  return stops.map((stop: unknown) => {
    if (typeof stop === "string" && stop.length > 0 && lengthOf(stop) <= MAX_STOP_CHARACTERS) {
      return stop;
    }
    throw wrong("stop", stop, `text of 1 to ${MAX_STOP_CHARACTERS} characters`);
  });
}

function checkStopTokens(value: unknown): number[] {
  if (!Array.isArray(value)) throw wrong("stopTokenIds", value, "a list");
  if (value.length > MAX_STOPS) {
    throw wrong("stopTokenIds.length", value.length, `at most ${MAX_STOPS}`);
  }
  const range = { low: 0, high: MAX_INT, whole: true, otherwise: 0 };
  return value.map((token: unknown) => checkNumber("stopTokenIds", token, range));
}

/** Characters, not UTF-16 units; counted only where there can be few enough. */
function lengthOf(text: string): number {
  return text.length > 2 * MAX_STOP_CHARACTERS ? text.length : [...text].length;
}

function wrong(name: string, value: unknown, wanted: string): EdgewiseError {
  return new EdgewiseError("input.sampling", `${name} is ${shorten(value)}; it must be ${wanted}.`);
}
