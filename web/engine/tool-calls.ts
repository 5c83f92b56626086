/**
 * Calls of tools in earlier messages, as chat templates expect them; by the rules of Python's
 * `text/tool_calls.py`.
 *
 * APIs hand the arguments of a call over as JSON text, most templates write an object as JSON, and some join
 * text to text: a template that is found to want text gets text, just as it came. APIs also leave out the
 * content of a message that is only calls, which some templates look into all the same: those find an empty
 * one.
 */

import type { Message, ToolCall } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { isTable } from "./plain.ts";

/** Calls that one message may have. */
const MAX_CALLS = 256;
/** Characters of a call's arguments. */
const MAX_ARGUMENTS = 1 << 20;
/** Lists and objects of arguments within one another. */
const MAX_NESTING = 64;
const KEY = "edgewise_key";
const VALUE = "edgewise_value";
const AS_JSON = `"${KEY}": "${VALUE}"`;
const AS_PYTHON = `'${KEY}': '${VALUE}'`;
const REMEDY =
  'A call is such as {"id": "call_1", "type": "function", "function": {"name": "add", ' +
  '"arguments": {"x": 1}}}.';

type Table = Readonly<Record<string, unknown>>;

/** How a template wants calls of tools in earlier messages. */
export interface CallForm {
  /** Arguments are JSON text, which stays as it is where it is that already; or else they are objects. */
  readonly text: boolean;
  /** A message with calls has a content, an empty one where it has none. */
  readonly content: boolean;
}

const PLAIN: CallForm = { text: false, content: false };
const FORMS: readonly CallForm[] = [
  PLAIN,
  { text: true, content: false },
  { text: false, content: true },
  { text: true, content: true },
];

/**
 * Messages whose calls of tools are all in one form; what is no message stays.
 *
 * @throws EdgewiseError `input.tool_calls` for what is no call, or too many.
 */
export function withCalls(messages: readonly Message[], form: CallForm): readonly Message[] {
  return messages.map((message) => (isCalling(message) ? written(message, form) : message));
}

/** Whether some message has calls of tools. */
export function hasCalls(messages: readonly Message[]): boolean {
  return Array.isArray(messages) && messages.some(isCalling);
}

/**
 * Find out which form a template wants, by rendering a short conversation.
 *
 * @param render the prompt of messages and tools; throws EdgewiseError where the template refuses them.
 */
export function callForm(
  render: (messages: readonly Message[], tools: readonly Table[]) => string,
): CallForm {
  const prompt = (form: CallForm): string => {
    try {
      return render(withCalls(CONVERSATION, form), [TOOL]);
    } catch (error) {
      if (error instanceof EdgewiseError) return "";
      throw error;
    }
  };
  const prompts = FORMS.map((form) => [form, prompt(form)] as const);
  const [found] =
    prompts.find(([form, text]) => shows(form, text)) ??
    prompts.find(([, text]) => text !== "") ??
    [];
  return found ?? PLAIN;
}

/** Whether a prompt has the arguments in it, as JSON or as a template spells them itself. */
function shows(form: CallForm, prompt: string): boolean {
  if (form.text) return prompt.includes(AS_JSON);
  return prompt.includes(VALUE) && !prompt.includes(AS_PYTHON);
}

const TOOL: Table = {
  type: "function",
  function: { name: "probe", description: "?", parameters: { type: "object", properties: {} } },
};
// Mistral's templates take no other ids than such of nine characters.
const CONVERSATION: readonly Message[] = [
  { role: "user", content: "?" },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "probe0001", function: { name: "probe", arguments: { [KEY]: VALUE } } }],
  },
  { role: "tool", tool_call_id: "probe0001", name: "probe", content: "?" },
];

function isCalling(message: unknown): message is Message {
  return isTable(message) && (message.tool_calls ?? null) !== null;
}

function written(message: Message, form: CallForm): Message {
  const { tool_calls: calls, ...others } = message;
  if (!Array.isArray(calls) || calls.length > MAX_CALLS) {
    throw new EdgewiseError(
      "input.tool_calls",
      `A message's tool_calls are ${shorten(calls)}; they must be a list of up to ${MAX_CALLS} calls.`,
      REMEDY,
    );
  }
  // Templates take a list for calls, even one without any.
  if (calls.length === 0) return others;
  const told = { ...message, tool_calls: calls.map((call) => called(call, form.text)) };
  return form.content && (message.content ?? null) === null ? { ...told, content: "" } : told;
}

/** A call as OpenAI's API has it: what it calls is inside `function`. */
function called(call: unknown, asText: boolean): ToolCall {
  const inner: unknown = isTable(call) && "function" in call ? call.function : call;
  if (!isTable(call) || !isTable(inner) || typeof inner.name !== "string" || inner.name === "") {
    throw new EdgewiseError("input.tool_calls", `${shorten(call)} is no call of a tool.`, REMEDY);
  }
  const { name, arguments: given, ...rest } = inner;
  const spelled = argumentsOf(given ?? null, name, asText);
  const around = inner === call ? rest : call;
  const within = inner === call ? { name } : inner;
  return { type: "function", ...around, function: { ...within, name, arguments: spelled } };
}

/** The arguments of a call; of one without any an empty object. */
function argumentsOf(given: unknown, name: string, asText: boolean): string | Table {
  const there: unknown = given === null || given === "" ? {} : given;
  if (isTable(there)) return asText ? spelledOut(there, name) : there;
  if (typeof there !== "string" || there.length > MAX_ARGUMENTS) throw wrong(there, name);
  let found: unknown;
  try {
    found = JSON.parse(there);
  } catch {
    throw wrong(there, name);
  }
  if (!isTable(found)) throw wrong(there, name);
  return asText ? there : found;
}

/** JSON as Python writes it: a space after each comma and colon. */
function spelledOut(value: unknown, name: string, depth = 0): string {
  if (depth > MAX_NESTING) throw wrong(value, name);
  const inside = (item: unknown) => spelledOut(item, name, depth + 1);
  if (Array.isArray(value)) return `[${value.map(inside).join(", ")}]`;
  if (isTable(value)) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}: ${inside(item)}`).join(", ")}}`;
  }
  const known = value === null || ["string", "boolean"].includes(typeof value);
  if (known || Number.isFinite(value)) return JSON.stringify(value);
  throw wrong(value, name);
}

function wrong(given: unknown, name: string): EdgewiseError {
  return new EdgewiseError(
    "input.tool_calls",
    `The arguments of the call of ${shorten(name)} are ${shorten(given)}; they must be an object, ` +
      `or the JSON text of one with up to ${MAX_ARGUMENTS} characters.`,
    REMEDY,
  );
}
