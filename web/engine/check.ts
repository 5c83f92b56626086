/** Whether what is asked for can be done at all. */

import { EdgewiseError, shorten } from "../errors.ts";
import { RING } from "../format/abi.ts";
import type { Request } from "./sequence.ts";

/**
 * @param vocab token ids are below this.
 * @param context most tokens of prompt and answer.
 * @throws EdgewiseError `input.empty`, `input.context`, `input.token`.
 */
export function checkRequest({ prompt, params }: Request, vocab: number, context: number): void {
  if (prompt.length === 0) {
    throw new EdgewiseError(
      "input.empty",
      "The prompt is empty: there is no token to go on from.",
      "Pass at least one token of text.",
    );
  }
  const room = Math.min(params.maxTokens, 1);
  if (prompt.length + room > context) {
    throw new EdgewiseError(
      "input.context",
      `The prompt has ${prompt.length} tokens; the context holds ${context}` +
        (room > 0 ? `, of which ${room} must be left for the answer.` : "."),
      "Shorten the prompt, or compile the model with a larger --context.",
    );
  }
  checkIds(prompt, "the prompt", vocab);
  checkIds([...params.logitBias.keys()], "logitBias", vocab);
  checkIds(params.stopTokenIds, "stopTokenIds", vocab);
}

/** @throws EdgewiseError `input.burst` for what no plan may be asked for. */
export function checkBurst(maxBurst: number): void {
  if (Number.isInteger(maxBurst) && maxBurst >= 1 && maxBurst <= RING) return;
  throw new EdgewiseError(
    "input.burst",
    `maxBurst is ${maxBurst}; it must be a whole number from 1 to ${RING}.`,
    "Leave it out for what this device does in a tenth of a second.",
  );
}

/** @throws EdgewiseError `input.draft` for another way to guess tokens than there is. */
export function checkDraft(draft: string): void {
  if (draft === "lookup") return;
  throw new EdgewiseError(
    "input.draft",
    `draft is ${shorten(draft)}, which is no way to guess tokens here.`,
    'Choose "lookup", or leave it out.',
  );
}

function checkIds(ids: readonly number[], where: string, vocab: number): void {
  const odd = ids.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocab));
  if (odd < 0) return;
  throw new EdgewiseError(
    "input.token",
    `${shorten(ids[odd])} in ${where} is not a token id of this model, which has 0 to ${vocab - 1}.`,
  );
}
