/** What a conversation may come to: one that is read from a file or from what was kept, and what is added to one. */

export const MOST = {
  conversations: 5_000,
  messages: 10_000,
  calls: 1_000,
  tools: 256,
  /** Tokens of an answer that was cut off. */
  tokens: 1_000_000,
  /** Characters of an id, of a title, and of a system prompt. */
  id: 100,
  title: 200,
  system: 20_000,
  /** Characters of what one message says. */
  text: 4_000_000,
  /** Files of a question, bytes of one, and characters of its name. */
  files: 10,
  fileBytes: 1 << 20,
  fileName: 100,
  /** Characters of tools and of a template's variables, as JSON. */
  json: 200_000,
  /** Bytes of a file, and lists, objects and commas in it. */
  file: 64 << 20,
  values: 4_000_000,
  /** Of what is counted or measured, milliseconds since 1970 among them. */
  number: 1e13,
} as const;

/** Tokens of an answer where neither the person nor the model says otherwise. */
export const MAX_TOKENS = 1024;

/** From, to, and whether only whole numbers are any. */
export type Range = readonly [low: number, high: number, whole: boolean];

/** What the settings of a conversation that are numbers may be. */
export const RANGES = {
  temperature: [0, 5, false],
  topP: [0, 1, false],
  topK: [-1, 1000, true],
  minP: [0, 1, false],
  repetitionPenalty: [0.5, 2, false],
  maxTokens: [1, 1_000_000, true],
  seed: [-1, Number.MAX_SAFE_INTEGER, true],
} as const satisfies Readonly<Record<string, Range>>;

export function within(value: number, [low, high, whole]: Range): boolean {
  return value >= low && value <= high && (!whole || Number.isInteger(value));
}
