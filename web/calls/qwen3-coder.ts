/**
 * Qwen3-Coder and Qwen 3.5: XML-like marks, with arguments as plain text. As in Python's `calls/qwen3_coder.py`.
 *
 * After the card and the template of Qwen/Qwen3-Coder-30B-A3B-Instruct:
 *
 *     <tool_call>
 *     <function=name>
 *     <parameter=key>
 *     value
 *     </parameter>
 *     </function>
 *     </tool_call>
 *
 * The line ends around a value are no part of it. What a value is follows from the tool's schema; without one it is
 * a string.
 */

import { type Format, spelling, THINK } from "./format.ts";
import { escaped } from "./json-scanner.ts";
import { NotACallError, type Reading, type Source } from "./source.ts";
import { isText, typed, typesOf } from "./typed.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const FUNCTION = "<function=";
const FUNCTION_END = "</function>";
const PARAMETER = "<parameter=";
const PARAMETER_END = "</parameter>";

function* read(source: Source): Reading<void> {
  for (;;) {
    // The first mark is forgotten now and then.
    const mark = yield* source.content([OPEN, FUNCTION]);
    if (!mark) return;
    yield* source.attempt(mark, calls(source, mark));
  }
}

function* calls(source: Source, mark: string): Reading<void> {
  if (mark === OPEN) {
    yield* source.spaces();
    yield* source.expect(FUNCTION);
  }
  yield* call(source);
  while (!(yield* source.closing(CLOSE)) && (yield* source.literal(FUNCTION))) {
    yield* call(source);
  }
}

function* call(source: Source): Reading<void> {
  const tool = yield* source.word();
  yield* source.expect(">");
  source.begin(tool);
  source.arguments("{");
  let separator = "";
  for (;;) {
    yield* source.spaces();
    if ((yield* source.expect(PARAMETER, FUNCTION_END)) === FUNCTION_END) break;
    const key = yield* source.word();
    yield* source.expect(">");
    source.arguments(`${separator}"${escaped(key)}": `);
    yield* value(source, typesOf(source.tools, tool, key));
    separator = ", ";
  }
  source.arguments("}");
  source.end();
}

function* value(source: Source, types: readonly string[]): Reading<void> {
  yield* source.literal("\n");
  let mark: string;
  if (isText(types)) {
    source.arguments('"');
    mark = yield* source.until([PARAMETER_END], lines(source));
    source.arguments('"');
  } else {
    const held: string[] = [];
    mark = yield* source.until([PARAMETER_END], (text) => held.push(text));
    source.arguments(typed(held.join("").replace(/\n$/, ""), types));
  }
  if (!mark) throw new NotACallError("cut");
}

/** Passes a text on as the inside of a JSON string, without a line end that it ends with. */
function lines(source: Source): (text: string) => void {
  let held = "";
  return (piece) => {
    const text = held + piece;
    held = text.endsWith("\n") ? "\n" : "";
    source.arguments(escaped(held ? text.slice(0, -1) : text));
  };
}

export const QWEN3_CODER: Format = {
  name: "qwen3_coder",
  read,
  marks: [OPEN, CLOSE],
  triggers: [OPEN, FUNCTION],
  spelling: spelling({
    begin: `${OPEN}\n${FUNCTION}`,
    named: ">\n",
    end: `${FUNCTION_END}\n${CLOSE}`,
    between: "\n",
    arguments: "xml",
    after: "free",
  }),
  thoughts: THINK,
};
