/** What sequences get of work that the device has done. */

import type { Elements } from "../device/base.ts";
import { type Batch, type RowResult, type Rows, wrongOutput } from "./batch.ts";
import type { Draft } from "./drafts/drafting.ts";
import type { Work } from "./flights.ts";
import type { Sequence } from "./sequence.ts";

/** Rows of tokens that have arrived. */
export interface Landed {
  readonly batch: Batch;
  readonly read: ReadonlyMap<string, Elements>;
  readonly results: readonly RowResult[];
  /** How long they took, milliseconds. */
  readonly ms: number;
}

/**
 * Give sequences the tokens of a burst, or the first of a prompt.
 *
 * @returns those whose logits were not finite.
 * @throws EdgewiseError `device.output`.
 */
export function takeTokens({ chunk, steps }: Work, rows: Rows, landed: Landed): Sequence[] {
  const spoiled: Sequence[] = [];
  for (const [row, sequence] of rows.sequences.entries()) {
    const result = landed.results[row];
    if (!result || sequence.ended) continue;
    if (!chunk) sequence.decodeMs += landed.ms;
    sequence.ahead -= steps;
    const { tokens, sound } = result;
    const likely = landed.batch.likely(landed.read, row, sequence, tokens);
    const again = sequence.accept(tokens, tokens.length + Number(!sound), likely);
    sequence.written = sequence.kvLen;
    sequence.force();
    if (sequence.ended || again) continue;
    if (!result.stopped && tokens.length === steps) continue;
    if (sound) throw endedEarly(sequence);
    spoiled.push(sequence);
  }
  return spoiled;
}

/**
 * Give sequences what was drawn in the places of their drafts, up to the first that is not as it was guessed.
 *
 * @param observe hears how many tokens of each draft were right.
 * @returns and throws as `takeTokens`.
 */
export function takeVerified(
  drafts: readonly Draft[],
  landed: Landed,
  observe: (draft: Draft, accepted: number) => void,
): Sequence[] {
  const spoiled: Sequence[] = [];
  let row = 0;
  for (const draft of drafts) {
    const { sequence, tokens: guessed } = draft;
    const first = row;
    row += guessed.length + 1;
    const drawn = landed.results.slice(first, row);
    const wrong = drawn.findIndex(
      ({ tokens }, i) => i === guessed.length || tokens[0] !== guessed[i],
    );
    observe(draft, wrong);
    if (sequence.ended) continue;
    sequence.decodeMs += landed.ms;
    sequence.ahead -= drawn.length;
    const taken = drawn.slice(0, wrong + 1);
    const tokens = taken.flatMap((one) => one.tokens);
    const likely = taken.flatMap((one, i) =>
      landed.batch.likely(landed.read, first + i, sequence, one.tokens),
    );
    sequence.accept(tokens, 0, likely);
    sequence.written = sequence.kvLen;
    if (sequence.ended || tokens.length === taken.length) continue;
    if (taken.at(-1)?.sound) throw endedEarly(sequence);
    spoiled.push(sequence);
  }
  return spoiled;
}

function endedEarly({ tokens }: Sequence): Error {
  return wrongOutput(`it ended a sequence after ${tokens.length} tokens, too early`);
}
