/** Which format an answer is in: told by the text of the model's chat template, or by name. As in Python's `calls/formats.py`. */

import { EdgewiseError, shorten } from "../errors.ts";
import { DEEPSEEK, DEEPSEEK31 } from "./deepseek.ts";
import type { Format } from "./format.ts";
import { FUNCTION_GEMMA, GEMMA, GEMMA4 } from "./gemma.ts";
import { GENERIC } from "./generic.ts";
import { HARMONY } from "./harmony.ts";
import { HERMES } from "./hermes.ts";
import { LLAMA3 } from "./llama3.ts";
import { MISTRAL, MISTRAL_LIST } from "./mistral.ts";
import { QWEN3_CODER } from "./qwen3-coder.ts";

/** What all has to stand in a template, the more telling first. */
const TOLD_BY: readonly (readonly [Format, readonly string[]])[] = [
  [HARMONY, ["<|channel|>", "<|message|>"]],
  [GEMMA4, ["<|tool_call>", "<tool_call|>"]],
  [FUNCTION_GEMMA, ["<start_function_call>"]],
  [DEEPSEEK, ["<｜tool▁call▁begin｜>", "```json"]],
  [DEEPSEEK31, ["<｜tool▁call▁begin｜>"]],
  [MISTRAL, ["[TOOL_CALLS]", "[ARGS]"]],
  [MISTRAL_LIST, ["[TOOL_CALLS]"]],
  [QWEN3_CODER, ["<tool_call>", "<function="]],
  [HERMES, ["<tool_call>"]],
  [LLAMA3, ["<|python_tag|>"]],
  [LLAMA3, ["<|start_header_id|>", "ipython"]],
  [GEMMA, ["<start_of_turn>"]],
];
/** All formats by name. */
export const FORMATS: ReadonlyMap<string, Format> = new Map(
  [...TOLD_BY.map(([format]) => format), GENERIC].map((format) => [format.name, format]),
);

/** The format that a chat template's text tells of; plain JSON where it tells of none. */
export function formatOf(template: string): Format {
  return (
    TOLD_BY.find(([, marks]) => marks.every((mark) => template.includes(mark)))?.[0] ?? GENERIC
  );
}

/**
 * The format of a name.
 *
 * @throws EdgewiseError `unsupported.calls`, there is none.
 */
export function formatNamed(name: string): Format {
  const format = FORMATS.get(name);
  if (format) return format;
  throw new EdgewiseError(
    "unsupported.calls",
    `No format of tool calls is called ${shorten(name)}.`,
    `There are ${[...FORMATS.keys()].sort().join(", ")}.`,
  );
}
