/**
 * gpt-oss: messages in channels, each with a header that may address a tool. As in Python's `calls/harmony.py`.
 *
 * After OpenAI's guide to the harmony response format:
 *
 *     <|channel|>analysis<|message|>...<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>
 *
 * without the line end between the two. The published template has the recipient of a call before its channel, where
 * the prompt has ended with `assistant`, so that an answer may begin with it:
 *
 *      to=functions.f<|channel|>commentary json<|message|>{...}<|call|>
 *
 * The channel `analysis` is thought, all others are said. What is addressed to
 * a tool of the model's own (`python`, `browser.search`) is a call of that name; where it is no JSON object, it is
 * the call's argument `code`.
 */

import { args } from "./envelope.ts";
import { type Format, spelling } from "./format.ts";
import { escaped } from "./json-scanner.ts";
import { NotACallError, type Reading, type Source } from "./source.ts";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
const CONSTRAIN = "<|constrain|>";
const CALL = "<|call|>";
const END = "<|end|>";
const ENDS = [END, "<|return|>", CALL];
const FUNCTIONS = "functions.";
const RECIPIENT = " to=";
const MAX_HEADER = 512;
const TO = /[ >]to=([^ \t\r\n<]+)/;
const THOUGHT = /<\|channel\|> *analysis/;

/** What stands before a message that is no call. */
interface Header {
  complete: boolean;
  /** The message is none for the user. */
  thought: boolean;
}

function* read(source: Source): Reading<void> {
  if (yield* source.literal(RECIPIENT)) yield* source.attempt(RECIPIENT, addressed(source), true);
  for (;;) {
    const mark = yield* source.content([START, CHANNEL]);
    if (!mark) return;
    const header: Header = { complete: false, thought: false };
    yield* source.attempt(mark, readHeader(source, mark, header));
    if (header.complete) {
      yield* source.until(ENDS, (text) => (header.thought ? source.think(text) : source.say(text)));
    }
  }
}

/** Read a call whose header the prompt has begun, from its recipient on. */
function* addressed(source: Source): Reading<void> {
  const header: Header = { complete: false, thought: false };
  yield* readHeader(source, RECIPIENT, header);
  if (header.complete) throw new NotACallError();
}

/** Read a header, or all of a message that calls a tool. */
function* readHeader(source: Source, begins: string, header: Header): Reading<void> {
  let text = begins;
  const mark = yield* source.until([MESSAGE, ...ENDS], (piece) => (text += piece), MAX_HEADER);
  if (mark !== MESSAGE) throw new NotACallError(mark ? "malformed" : "cut");
  const recipient = TO.exec(text)?.[1];
  if (recipient !== undefined) {
    yield* call(source, recipient);
    return;
  }
  header.thought = THOUGHT.test(text);
  header.complete = true;
}

function* call(source: Source, recipient: string): Reading<void> {
  const ours = recipient.startsWith(FUNCTIONS);
  source.begin(ours ? recipient.slice(FUNCTIONS.length) : recipient);
  yield* source.spaces();
  if (ours || (yield* source.peek()) === "{") {
    yield* args(source);
    source.end();
    for (const mark of ENDS) {
      if (yield* source.closing(mark)) return;
    }
  } else {
    source.arguments('{"code": "');
    yield* source.until(ENDS, (text) => source.arguments(escaped(text)));
    source.arguments('"}');
    source.end();
  }
}

export const HARMONY: Format = {
  name: "harmony",
  read,
  marks: [START, CHANNEL, MESSAGE, CONSTRAIN, ...ENDS],
  triggers: [`${CHANNEL}commentary to=${FUNCTIONS}`],
  spelling: spelling({
    begin: `${CHANNEL}commentary to=${FUNCTIONS}`,
    named: ` ${CONSTRAIN}json${MESSAGE}`,
    between: `${CALL}${START}assistant`,
    close: CALL,
    thought: [`${CHANNEL}analysis${MESSAGE}`, "<|", `${END}${START}assistant`],
  }),
  thoughts: [],
};
