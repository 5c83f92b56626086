/**
 * Mistral: `[TOOL_CALLS]` and a list of JSON objects, or of each call a name and its arguments. As in Python's
 * `calls/mistral.py`.
 *
 * After mistral-common's tokenizers: a list up to v7, `[TOOL_CALLS]name[CALL_ID]id[ARGS]{...}` in v11 (the id may be
 * missing), `[TOOL_CALLS]name[ARGS]{...}` in v13. Magistral thinks between `[THINK]` and `[/THINK]`, its first
 * version between `<think>` and `</think>`.
 */

import { args, callList } from "./envelope.ts";
import { type Format, spelling, THINK } from "./format.ts";
import { NotACallError, type Reading, type Source } from "./source.ts";

const CALLS = "[TOOL_CALLS]";
const ARGUMENTS = "[ARGS]";
const ID = "[CALL_ID]";

function* read(source: Source): Reading<void> {
  while (yield* source.content([CALLS])) yield* source.attempt(CALLS, calls(source));
}

function* calls(source: Source): Reading<void> {
  yield* source.spaces();
  if ((yield* source.peek()) === "[") {
    yield* callList(source);
    return;
  }
  const name = yield* source.word();
  const given = (yield* source.literal(ID)) ? yield* source.word() : "";
  if (yield* source.closing(ARGUMENTS)) {
    yield* source.spaces();
  } else {
    const begins = yield* source.peek();
    if (begins !== "{") throw new NotACallError(begins ? "malformed" : "cut");
  }
  source.begin(name, given);
  yield* args(source);
  source.end();
}

const BOTH = {
  read,
  triggers: [CALLS],
  thoughts: [["[THINK]", "[/THINK]"], ...THINK],
} as const;

export const MISTRAL_LIST: Format = {
  ...BOTH,
  name: "mistral_list",
  marks: [CALLS],
  spelling: spelling({
    first: `${CALLS} [`,
    begin: '{"name": "',
    named: '", "arguments": ',
    end: "}",
    between: ", ",
    last: "]",
  }),
};
export const MISTRAL: Format = {
  ...BOTH,
  name: "mistral",
  marks: [CALLS, ARGUMENTS, ID],
  spelling: spelling({ begin: CALLS, named: ARGUMENTS, id: ID }),
};
