/**
 * Gemma: code blocks of Gemma 3, FunctionGemma's and Gemma 4's calls with marked strings. As in Python's
 * `calls/gemma.py`.
 *
 * Gemma 3 has no marks of its own; after Google's guide to function calling with Gemma it is told to answer with
 * `[f(a=1)]`, a code block of `tool_code`, or JSON. FunctionGemma writes
 * `<start_function_call>call:f{a:<escape>x<escape>}<end_function_call>` (after its guide to formatting), Gemma 4
 * `<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>`, with thoughts in a channel of their own (after its template).
 */

import type { Marks } from "../engine/thinking.ts";
import { type Format, spelling, THINK } from "./format.ts";
import * as generic from "./generic.ts";
import { marked, members } from "./literals.ts";
import { callLines, callList } from "./pythonic.ts";
import type { Reading, Source } from "./source.ts";

const CODE = "```tool_code";
const FENCE = "```";
const CALL = "call:";

function* readBlocks(source: Source): Reading<void> {
  yield* source.blank();
  const begins = yield* source.peek();
  if (begins === "[") yield* source.attempt("", callList(source), true);
  else if (begins === "{") yield* source.attempt("", generic.objects(source), true);
  for (;;) {
    const mark = yield* source.content([CODE, generic.BLOCK]);
    if (!mark) return;
    if (mark === CODE) yield* source.attempt(mark, block(source));
    else yield* source.attempt(mark, generic.block(source), true);
  }
}

function* block(source: Source): Reading<void> {
  yield* source.spaces();
  yield* callLines(source);
  yield* source.closing(FENCE);
}

function markedFormat(
  name: string,
  begin: string,
  end: string,
  quote: string,
  thoughts: Marks = THINK,
): Format {
  const notation = marked(quote);

  function* read(source: Source): Reading<void> {
    while (yield* source.content([begin])) yield* source.attempt(begin, call(source));
  }

  function* call(source: Source): Reading<void> {
    yield* source.spaces();
    yield* source.expect(CALL);
    source.begin(yield* source.word());
    yield* members(source, notation);
    source.end();
    yield* source.closing(end);
  }

  return {
    name,
    read,
    marks: [begin, end, quote],
    triggers: [begin],
    spelling: spelling({ begin: begin + CALL, end, arguments: "gemma", quote }),
    thoughts,
  };
}

export const GEMMA: Format = {
  name: "gemma",
  read: readBlocks,
  marks: [],
  triggers: [CODE],
  spelling: spelling({
    first: `${CODE}\n`,
    between: "\n",
    last: `\n${FENCE}`,
    arguments: "python",
    after: "free",
  }),
  thoughts: THINK,
};
export const FUNCTION_GEMMA = markedFormat(
  "function_gemma",
  "<start_function_call>",
  "<end_function_call>",
  "<escape>",
);
export const GEMMA4 = markedFormat("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>', [
  ["<|channel>thought\n", "<channel|>"],
]);
