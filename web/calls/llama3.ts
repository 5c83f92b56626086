/**
 * Llama 3.1 to 3.3: an answer that is a JSON object, or what follows `<|python_tag|>`. As in Python's
 * `calls/llama3.py`.
 *
 * After Meta's model cards of Llama 3.1 and 3.2 and the templates of their checkpoints: functions of the user's are
 * called by `{"name": "f", "parameters": {...}}`, several with `;` between them; small models write `[f(a=1), g()]`;
 * built-in tools are called by `<|python_tag|>brave_search.call(query="x")`, and other text after that mark is code,
 * given to a tool named `code_interpreter`.
 */

import { call } from "./envelope.ts";
import { type Format, spelling, THINK } from "./format.ts";
import { escaped } from "./json-scanner.ts";
import { keywords } from "./literals.ts";
import { callList } from "./pythonic.ts";
import { NAME, type Reading, type Source } from "./source.ts";

const CODE = "code_interpreter";
const TAG = "<|python_tag|>";
const ENDS = ["<|eot_id|>", "<|eom_id|>"];
const BUILT_IN = ".call";

function* read(source: Source): Reading<void> {
  yield* source.blank();
  const begins = yield* source.peek();
  if (begins === "{") yield* source.attempt("", objects(source, true), true);
  else if (begins === "[") yield* source.attempt("", callList(source), true);
  while (yield* source.content([TAG])) yield* source.attempt(TAG, tagged(source));
}

function* objects(source: Source, known: boolean): Reading<void> {
  yield* call(source, known);
  while (yield* source.closing(";")) {
    yield* source.spaces();
    yield* call(source, known);
  }
}

function* tagged(source: Source): Reading<void> {
  yield* source.spaces();
  const begins = yield* source.peek();
  if (begins === "{") {
    yield* objects(source, false);
    return;
  }
  NAME.lastIndex = 0;
  const word = NAME.test(begins) ? yield* source.word() : "";
  if (word.endsWith(BUILT_IN) && (yield* source.literal("("))) {
    source.begin(word.slice(0, -BUILT_IN.length));
    yield* keywords(source);
  } else {
    source.begin(CODE);
    source.arguments(`{"code": "${escaped(word)}`);
    yield* source.until(ENDS, (text) => source.arguments(escaped(text)));
    source.arguments('"}');
  }
  source.end();
}

export const LLAMA3: Format = {
  name: "llama3",
  read,
  marks: [TAG],
  triggers: [TAG],
  spelling: spelling({
    begin: '{"name": "',
    named: '", "parameters": ',
    end: "}",
    between: "; ",
  }),
  thoughts: THINK,
};
