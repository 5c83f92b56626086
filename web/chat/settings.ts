/** The settings of a conversation that are numbers, and what may be written into their fields. */

import { RANGES, within } from "./bounds.ts";
import type { Settings } from "./conversations.ts";

export interface Field {
  readonly name: keyof typeof RANGES;
  readonly label: string;
  readonly hint: string;
  readonly low: number;
  readonly high: number;
  readonly step: number;
}

const LABELS: readonly (readonly [name: Field["name"], label: string, hint: string])[] = [
  ["temperature", "Temperature", "0 always takes the likeliest word; higher is more varied"],
  ["topP", "Top-p", "Keep the likeliest that add up to this probability"],
  ["topK", "Top-k", "Keep this many of the likeliest; 0 keeps all"],
  ["minP", "Min-p", "Drop what is this much less likely than the likeliest"],
  ["repetitionPenalty", "Repetition penalty", "Above 1 repeats less"],
  ["maxTokens", "Longest answer", "In tokens"],
  ["seed", "Seed", "The same seed and conversation give the same answer"],
];

export const FIELDS: readonly Field[] = LABELS.map(([name, label, hint]) => {
  const [low, high, whole] = RANGES[name];
  return { name, label, hint, low, high, step: whole ? 1 : 0.01 };
});

/** The settings with one changed, without it where the text is empty; null for what is no value. */
export function changed(settings: Settings, { name }: Field, text: string): Settings | null {
  const { [name]: _, ...others } = settings;
  if (text.trim() === "") return others;
  const value = Number(text);
  return within(value, RANGES[name]) ? { ...others, [name]: value } : null;
}
