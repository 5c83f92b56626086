/** The settings of a conversation that are numbers, and what may be written into their fields. */

import type { Settings } from "./conversations.ts";

export interface Field {
  readonly name: Exclude<keyof Settings, "tools" | "variables">;
  readonly label: string;
  readonly hint: string;
  readonly low: number;
  readonly high: number;
  readonly step: number;
}

export const FIELDS: readonly Field[] = [
  {
    name: "temperature",
    label: "Temperature",
    hint: "0 always takes the likeliest word; higher is more varied",
    low: 0,
    high: 5,
    step: 0.01,
  },
  {
    name: "topP",
    label: "Top-p",
    hint: "Keep the likeliest that add up to this probability",
    low: 0,
    high: 1,
    step: 0.01,
  },
  {
    name: "topK",
    label: "Top-k",
    hint: "Keep this many of the likeliest; 0 keeps all",
    low: -1,
    high: 1000,
    step: 1,
  },
  {
    name: "minP",
    label: "Min-p",
    hint: "Drop what is this much less likely than the likeliest",
    low: 0,
    high: 1,
    step: 0.01,
  },
  {
    name: "repetitionPenalty",
    label: "Repetition penalty",
    hint: "Above 1 repeats less",
    low: 0.5,
    high: 2,
    step: 0.01,
  },
  {
    name: "maxTokens",
    label: "Longest answer",
    hint: "In tokens",
    low: 1,
    high: 1_000_000,
    step: 1,
  },
  {
    name: "seed",
    label: "Seed",
    hint: "The same seed and conversation give the same answer",
    low: -1,
    high: Number.MAX_SAFE_INTEGER,
    step: 1,
  },
];

/** The settings with one changed, without it where the text is empty; null for what is no value. */
export function changed(settings: Settings, field: Field, text: string): Settings | null {
  const { name, low, high, step } = field;
  const { [name]: _, ...others } = settings;
  if (text.trim() === "") return others;
  const value = Number(text);
  const fits = value >= low && value <= high && (step < 1 || Number.isInteger(value));
  return fits ? { ...others, [name]: value } : null;
}
