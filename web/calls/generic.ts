/**
 * Models without marks of their own: an answer that is JSON of a call, or a list of such. As in Python's
 * `calls/generic.py`.
 *
 * It may stand in a code block of JSON. What is JSON but no call of a known tool is an answer.
 */

import { call, callList } from "./envelope.ts";
import { type Format, spelling, THINK } from "./format.ts";
import { NotACallError, type Reading, type Source } from "./source.ts";

export const BLOCK = "```json";
const FENCE = "```";

/** Read calls, one below another, or a list of them. */
export function* objects(source: Source): Reading<void> {
  if ((yield* source.peek()) === "[") {
    yield* callList(source, true);
    return;
  }
  do {
    yield* call(source, true);
    yield* source.spaces();
  } while ((yield* source.peek()) === "{");
}

/** Read what is in a code block of JSON, and its end. */
export function* block(source: Source): Reading<void> {
  yield* source.spaces();
  if (!["{", "["].includes(yield* source.peek())) throw new NotACallError();
  yield* objects(source);
  yield* source.closing(FENCE);
}

function* read(source: Source): Reading<void> {
  yield* source.blank();
  if (["{", "["].includes(yield* source.peek())) {
    yield* source.attempt("", objects(source), true);
  }
  while (yield* source.content([BLOCK])) yield* source.attempt(BLOCK, block(source), true);
}

export const GENERIC: Format = {
  name: "json",
  read,
  marks: [],
  triggers: [],
  spelling: spelling({
    begin: '{"name": "',
    named: '", "arguments": ',
    end: "}",
    between: "\n",
  }),
  thoughts: THINK,
};
