/** How likely the tokens just drawn were, and the likeliest in their place. As in Python's `engine/logprobs.py`. */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import { LOGPROBS, NO_TOKEN } from "../format/abi.ts";

/** What a program computes of a row. They are the model's own: before penalties, biases, temperature and filters. */
export const LIKELY = ["logprobs", "logprob_ids"] as const;

/** How likely a token was: the natural logarithm of its probability, -Infinity where its logit was no number. */
export interface DrawnLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  /** The likeliest tokens, best first, of equals the lowest id: as many as were asked for. */
  readonly top: readonly (readonly [tokenId: number, logprob: number])[];
}

/** @throws EdgewiseError `bundle.entry` for a program compiled before there was the operation. */
export function checkLogprobs({ program }: Pick<LoadedProgram, "program">): void {
  if (program.entries.has("logprobs")) return;
  throw new EdgewiseError(
    "bundle.entry",
    `Program ${program.id} has no plan for log-probabilities.`,
    "Compile the model again with this version of edgewise.",
  );
}

/** Have the plans ready that tell; they are compiled for the first request that asks. */
export function prepareLogprobs(loaded: LoadedProgram): Promise<void> {
  const entries = loaded.program.entries.get("logprobs") ?? [];
  return loaded.prepare(entries.map(({ plan }) => plan));
}

/** What was read of a row, with `most` of the likeliest tokens; null for a row that has none. */
export function logprobOf(
  read: ReadonlyMap<string, Elements>,
  row: number,
  most: number,
): DrawnLogprob | null {
  const [values, ids] = LIKELY.map((name) =>
    read.get(name)?.subarray(row * LOGPROBS, (row + 1) * LOGPROBS),
  );
  const [tokenId] = ids ?? [];
  const [logprob] = values ?? [];
  if (!values || !ids || tokenId === undefined || logprob === undefined) return null;
  const top: (readonly [number, number])[] = [];
  for (const [column, id] of ids.entries()) {
    if (column > 0 && id !== NO_TOKEN) top.push([id, values[column] ?? Number.NEGATIVE_INFINITY]);
  }
  return { tokenId, logprob, top: top.slice(0, most) };
}
