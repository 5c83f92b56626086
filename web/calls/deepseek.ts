/**
 * DeepSeek V2.5 to V3.1 and R1: calls between tokens of their own. As in Python's `calls/deepseek.py`.
 *
 * After the templates of deepseek-ai/DeepSeek-R1 and DeepSeek-V3.1. The older form names the kind first and has its
 * arguments in a code block; since V3.1 name and arguments stand bare.
 */

import { args } from "./envelope.ts";
import { type Format, spelling, THINK } from "./format.ts";
import type { Reading, Source } from "./source.ts";

const CALLS = "<｜tool▁calls▁begin｜>";
const CALLS_END = "<｜tool▁calls▁end｜>";
const CALL = "<｜tool▁call▁begin｜>";
const CALL_END = "<｜tool▁call▁end｜>";
const SEPARATOR = "<｜tool▁sep｜>";
const KIND = "function";
const BLOCK = "```json";
const FENCE = "```";

function* read(source: Source): Reading<void> {
  for (;;) {
    const mark = yield* source.content([CALLS, CALL]);
    if (!mark) return;
    yield* source.attempt(mark, calls(source, mark));
  }
}

function* calls(source: Source, mark: string): Reading<void> {
  if (mark === CALLS) {
    yield* source.spaces();
    yield* source.expect(CALL);
  }
  do {
    yield* call(source);
  } while (yield* source.closing(CALL));
  yield* source.closing(CALLS_END);
}

function* call(source: Source): Reading<void> {
  yield* source.spaces();
  let name = yield* source.word();
  yield* source.spaces();
  yield* source.expect(SEPARATOR);
  yield* source.spaces();
  const fenced = name === KIND && (yield* source.peek()) !== "{";
  if (fenced) {
    name = yield* source.word();
    yield* source.spaces();
    yield* source.expect(BLOCK);
    yield* source.spaces();
  }
  source.begin(name);
  yield* args(source);
  source.end();
  if (fenced) yield* source.closing(FENCE);
  yield* source.closing(CALL_END);
}

const BOTH = {
  read,
  marks: [CALLS, CALLS_END, CALL, CALL_END, SEPARATOR],
  triggers: [CALLS],
  thoughts: THINK,
} as const;

export const DEEPSEEK: Format = {
  ...BOTH,
  name: "deepseek",
  spelling: spelling({
    first: CALLS,
    begin: `${CALL}${KIND}${SEPARATOR}`,
    named: `\n${BLOCK}\n`,
    end: `\n${FENCE}${CALL_END}`,
    between: "\n",
    last: CALLS_END,
  }),
};
export const DEEPSEEK31: Format = {
  ...BOTH,
  name: "deepseek_v31",
  spelling: spelling({
    first: CALLS,
    begin: CALL,
    named: SEPARATOR,
    end: CALL_END,
    last: CALLS_END,
  }),
};
