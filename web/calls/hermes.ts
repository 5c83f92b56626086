/**
 * Hermes 2 Pro, Qwen 2.5 and Qwen3: JSON between `<tool_call>` and `</tool_call>`. As in Python's `calls/hermes.py`.
 *
 * After the cards of NousResearch/Hermes-2-Pro-Mistral-7B and Qwen/Qwen3-8B, and their templates.
 */

import { call } from "./envelope.ts";
import { type Format, spelling, THINK } from "./format.ts";
import type { Reading, Source } from "./source.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

function* read(source: Source): Reading<void> {
  while (yield* source.content([OPEN])) yield* source.attempt(OPEN, calls(source));
}

function* calls(source: Source): Reading<void> {
  yield* source.spaces();
  yield* call(source);
  // Some write all calls between one pair of marks, and some forget the second mark.
  while (!(yield* source.closing(CLOSE)) && (yield* source.peek()) === "{") yield* call(source);
}

export const HERMES: Format = {
  name: "hermes",
  read,
  marks: [OPEN, CLOSE],
  triggers: [OPEN],
  spelling: spelling({
    begin: `${OPEN}\n{"name": "`,
    named: '", "arguments": ',
    end: `}\n${CLOSE}`,
    between: "\n",
    after: "free",
  }),
  thoughts: THINK,
};
