/** What tokenizers put around the ids of a text. */

import { isObject, type JsonObject } from "../json.ts";
import { unsupported } from "./unsupported.ts";

type Around = (ids: readonly number[]) => readonly number[];

/** Each entry is checked before by `checkRules`: ids are ids, and templates have the text once. */
const STEPS: Readonly<Record<string, (step: JsonObject) => Around>> = {
  BertProcessing: (step) => around([idOf(step.cls)], [idOf(step.sep)]),
  ByteLevel: () => around([], []),
  RobertaProcessing: (step) => around([idOf(step.cls)], [idOf(step.sep)]),
  Sequence: (step) => {
    const steps = (Array.isArray(step.processors) ? step.processors : []).map(postProcessorOf);
    return (ids) => steps.reduce((before, one) => one(before), ids);
  },
  TemplateProcessing: template,
};

const around =
  (before: readonly number[], after: readonly number[]): Around =>
  (ids) => [...before, ...ids, ...after];

function idOf(pair: unknown): number {
  const id: unknown = Array.isArray(pair) && pair.length === 2 ? pair[1] : undefined;
  if (typeof id !== "number") throw new TypeError("it puts what is no token around texts");
  return id;
}

function template(step: JsonObject): Around {
  const known = isObject(step.special_tokens) ? step.special_tokens : {};
  const parts: [number[], number[]] = [[], []];
  let side: 0 | 1 = 0;
  for (const piece of Array.isArray(step.single) ? step.single : []) {
    if (!isObject(piece)) throw new TypeError("its template has a part that is none");
    if ("Sequence" in piece) {
      if (!isObject(piece.Sequence) || piece.Sequence.id !== "A") {
        throw new TypeError("its template for one text has another one in it");
      }
      side = 1;
      continue;
    }
    const name = isObject(piece.SpecialToken) ? String(piece.SpecialToken.id) : "";
    const token = Object.hasOwn(known, name) ? known[name] : undefined;
    parts[side].push(...(isObject(token) && Array.isArray(token.ids) ? token.ids : []));
  }
  return around(...parts);
}

/**
 * @param step a post-processor of a tokenizer.json whose rules have been checked.
 * @throws EdgewiseError `unsupported.tokenizer` for one that is not known.
 */
export function postProcessorOf(step: unknown): Around {
  const kind = isObject(step) ? String(step.type) : "";
  const make = Object.hasOwn(STEPS, kind) ? STEPS[kind] : undefined;
  if (!make || !isObject(step)) throw unsupported("post-processor", step);
  return make(step);
}
