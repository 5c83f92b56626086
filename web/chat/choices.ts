/** How a person wants a model loaded, remembered by the model's URL. */

import type { Offer } from "./offers.ts";
import { prefer, preference } from "./preferences.ts";

/** What is left out is for the engine to choose: the program, and all the context there is. */
export interface LoadChoice {
  readonly program?: string;
  readonly context?: number;
}

/** Contexts shorter than this are no conversation. */
const LEAST_CONTEXT = 512;

/** Contexts to choose from: all that there is, and the powers of two below, the largest first. */
export function contexts(most: number): readonly number[] {
  const smaller: number[] = [];
  for (let tokens = LEAST_CONTEXT; tokens < most; tokens *= 2) smaller.unshift(tokens);
  return [most, ...smaller];
}

/** What was chosen last for a model; a context that it does not offer any more is left out. */
export function choiceOf({ url, context: most }: Offer): LoadChoice {
  const { program, context } = readChoices(preference("edgewise.choices")).get(url) ?? {};
  const offered = context !== undefined && contexts(most).includes(context) && context < most;
  return { ...(program === undefined ? {} : { program }), ...(offered ? { context } : {}) };
}

export function choose({ url }: Offer, choice: LoadChoice): void {
  const choices = readChoices(preference("edgewise.choices")).set(url, choice);
  prefer("edgewise.choices", JSON.stringify(Object.fromEntries(choices)));
}

/** The choices in a text that was kept; what is none is left out. */
export function readChoices(text: string | null): Map<string, LoadChoice> {
  try {
    const kept: unknown = JSON.parse(text ?? "{}");
    if (typeof kept !== "object" || kept === null) return new Map();
    return new Map(Object.entries(kept).map(([url, value]) => [url, readChoice(value)]));
  } catch {
    return new Map();
  }
}

function readChoice(value: unknown): LoadChoice {
  if (typeof value !== "object" || value === null) return {};
  const { program, context } = value as Partial<Record<keyof LoadChoice, unknown>>;
  return {
    ...(typeof program === "string" ? { program } : {}),
    ...(typeof context === "number" ? { context } : {}),
  };
}
