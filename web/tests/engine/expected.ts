/** What the reference model answers, computed from requests alone. */

import type { Constraint } from "../../engine/constraint.ts";
import {
  isGreedy,
  isPenalized,
  MAX_BIAS,
  type SamplingParams,
  without,
} from "../../engine/sampling.ts";

export const VOCAB = 64;
export const EOS = [3, 11];

/** What a history comes to. */
export function stateOf(history: readonly number[]): number {
  return history.reduce(mix, 17);
}

/** The token after a history, or what that comes to, as `draw` gives it to whoever asks with the same parameters. */
export function nextToken(
  history: readonly number[] | number,
  position: number,
  params: SamplingParams,
  seed: bigint,
  counts: readonly number[],
  allows: (token: number) => boolean = () => true,
): number {
  let state = typeof history === "number" ? history : stateOf(history);
  if (!isGreedy(params)) {
    state = [Number(seed & 0xffffffffn), Number(seed >> 32n), position].reduce(mix, state);
  }
  if (isPenalized(params)) state = counts.reduce(mix, state);
  for (const [id, value] of params.logitBias)
    state = mix(mix(state, id), Math.fround(value) * 1000);
  const inTurn = Array.from({ length: VOCAB }, (_, i) => (state + i) % VOCAB).filter(allows);
  // The lowest bias is no mask: where nothing else may come, what has it does.
  const wanted = inTurn.find((token) => (params.logitBias.get(token) ?? 0) > -MAX_BIAS);
  const token = wanted ?? inTurn[0];
  if (token === undefined) throw new Error("no token may come");
  return token;
}

/** The random numbers of a choice, of those that its seed gives the first. */
export function seedOf(seed: bigint, index: number): bigint {
  return seed ^ (BigInt(index) << 40n);
}

/** Everything that a generation has to give, from nothing but its request. */
export function expectedTokens(
  prompt: readonly number[],
  params: SamplingParams,
  context = 256,
  eos: readonly number[] = EOS,
  constraint: Constraint | null = null,
): number[] {
  const tokens: number[] = [];
  const counts = new Array<number>(VOCAB).fill(0);
  for (const token of prompt) counts[token] = 1;
  const ends = [...params.stopTokenIds, ...(params.ignoreEos ? [] : eos)];
  const unending = params.minTokens > 0 ? without(params, ends) : params;
  const most = Math.min(params.maxTokens, context - prompt.length);
  let state = constraint?.start ?? 0;
  while (tokens.length < most && !constraint?.mustEnd(state)) {
    const history = [...prompt, ...tokens];
    const short = tokens.length < params.minTokens;
    const now = short ? unending : params;
    const allows = constraint ? allowed(constraint, state, ends, short) : () => true;
    const [forced] = constraint?.forcedTokens(state) ?? [];
    const token =
      forced ?? nextToken(history, history.length, now, params.seed ?? 0n, counts, allows);
    tokens.push(token);
    counts[token] = (counts[token] ?? 0) + 2;
    if (ends.includes(token)) break;
    state = constraint?.advance(state, token) ?? state;
  }
  return tokens;
}

function allowed(constraint: Constraint, state: number, ends: readonly number[], short: boolean) {
  if (constraint.free(state)) return () => true;
  const mask = constraint.mask(state);
  const goesOn = mask.some((word) => word !== 0);
  const may = constraint.mayEnd(state) && !(short && goesOn) ? ends : [];
  return (token: number) =>
    (((mask[token >>> 5] ?? 0) >>> (token & 31)) & 1) === 1 || may.includes(token);
}

export function mix(state: number, value: number): number {
  let h = Math.imul(state ^ (value | 0), 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 15), 0x85ebca6b);
  return (h ^ (h >>> 13)) >>> 0;
}
