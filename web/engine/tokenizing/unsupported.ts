/** What is said of a part of a tokenizer that a tab cannot be. */

import { EdgewiseError, shorten } from "../../errors.ts";
import { isObject } from "../json.ts";

export function unsupported(part: string, step: unknown): EdgewiseError {
  return new EdgewiseError(
    "unsupported.tokenizer",
    `The tokenizer's ${part} ${shorten(isObject(step) ? (step.type ?? step) : step)} is none that is known here.`,
    "Run the model from Python.",
  );
}
