/** The messages between a tab that lends its GPU and its host: docs/tabs.md. The host's are read here. */

import { isTable, plainJson } from "../engine/plain.ts";
import { EdgewiseError, type ErrorJson, shorten } from "../errors.ts";
import { Fields } from "../format/reading.ts";
import type { Message, ToolDefinition } from "./types.ts";
import type { choiceOf, WireDelta } from "./wire.ts";

export type ToHost =
  | {
      readonly type: "lend";
      readonly model: string;
      readonly bundle: string;
      readonly tokenizer: string;
      readonly program: string;
      readonly device: string;
      readonly context: number;
      readonly slots: number;
    }
  | { readonly type: "said"; readonly run: string; readonly deltas: readonly WireDelta[] }
  | { readonly type: "ended"; readonly run: string; readonly choice: ReturnType<typeof choiceOf> }
  | ({ readonly type: "failed"; readonly run: string } & ErrorJson)
  | { readonly type: "alive"; readonly beat: number }
  | { readonly type: "unlend" };

/** What is asked for. The engine checks messages, tools and options: it takes them from pages, too. */
export interface Run {
  readonly type: "run";
  readonly run: string;
  readonly messages: readonly Message[] | null;
  readonly prompt: string | readonly number[] | null;
  readonly tools: readonly ToolDefinition[] | null;
  readonly variables: Readonly<Record<string, unknown>> | null;
  readonly options: Readonly<Record<string, unknown>>;
}

export type FromHost =
  | { readonly type: "lent"; readonly beatS: number }
  | Run
  | { readonly type: "halt"; readonly run: string }
  | { readonly type: "beat"; readonly beat: number }
  | { readonly type: "error"; readonly error: ErrorJson };

const MAX_CHARACTERS = 16 << 20;
const MAX_TOKENS = 1 << 18;
const MAX_ITEMS = 4096;
const MAX_TEXT = 4096;
const RUN = /^r[0-9]{1,18}$/;
const TAB = /^t[0-9]{1,18}$/;
const MAX_BEAT_S = 3600;

/**
 * A message of the host.
 *
 * @throws EdgewiseError `tab.*` for what is none.
 */
export function readFromHost(data: unknown): FromHost {
  if (typeof data !== "string" || data.length > MAX_CHARACTERS) {
    throw new EdgewiseError("tab.wrong", "The host sent what is no message, or too long for one.");
  }
  const fields = new Fields(new Map(Object.entries(parsed(data))), "The message", "tab");
  const type = fields.get("type");
  const reader = typeof type === "string" && Object.hasOwn(READERS, type) ? READERS[type] : null;
  if (!reader) throw fields.fail("message", `'type' is ${shorten(type)}, which is none`);
  const message = reader(fields);
  fields.done();
  return message;
}

function parsed(data: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw EdgewiseError.from(cause, "tab.wrong", "The host sent what is no JSON");
  }
  const plain = plainJson(value, "The message", "tab.wrong");
  if (isTable(plain)) return plain;
  throw new EdgewiseError("tab.wrong", `The host sent ${shorten(plain)}, which is no object.`);
}

const READERS: Readonly<Record<string, (fields: Fields) => FromHost>> = {
  lent(fields) {
    fields.text("tab", TAB);
    const beatS = fields.get("beat_s");
    if (typeof beatS === "number" && beatS > 0 && beatS <= MAX_BEAT_S)
      return { type: "lent", beatS };
    throw fields.fail("range", `'beat_s' is ${shorten(beatS)}; it must be in 0..${MAX_BEAT_S}`);
  },
  run: (fields) => ({
    type: "run",
    run: fields.text("run", RUN),
    messages: fields.has("messages") ? objects<Message>(fields, "messages") : null,
    prompt: fields.has("prompt") ? promptOf(fields) : null,
    tools: fields.has("tools") ? objects<ToolDefinition>(fields, "tools") : null,
    variables: fields.has("variables") ? table(fields, "variables") : null,
    options: table(fields, "options"),
  }),
  halt: (fields) => ({ type: "halt", run: fields.text("run", RUN) }),
  beat: (fields) => ({ type: "beat", beat: fields.integer("beat", 1, 2 ** 31) }),
  error(fields) {
    const code = fields.text("code", null, MAX_TEXT);
    const message = fields.text("message", null, MAX_TEXT);
    return {
      type: "error",
      error: { code, message, remedy: fields.text("remedy", null, MAX_TEXT) },
    };
  },
};

function objects<T>(fields: Fields, key: string): readonly T[] {
  const items = fields.items(key, MAX_ITEMS);
  const odd = items.find((item) => !isTable(item));
  if (odd !== undefined) throw fields.fail("type", `'${key}' holds ${shorten(odd)}, no object`);
  return items as readonly T[];
}

function promptOf(fields: Fields): string | readonly number[] {
  const prompt = fields.get("prompt");
  if (typeof prompt === "string") return prompt;
  const ids = fields.items("prompt", MAX_TOKENS);
  const odd = ids.find((id) => !(Number.isInteger(id) && Number(id) >= 0));
  if (odd !== undefined) throw fields.fail("type", `'prompt' holds ${shorten(odd)}, no token id`);
  return ids as readonly number[];
}

function table(fields: Fields, key: string): Readonly<Record<string, unknown>> {
  const value = fields.get(key);
  if (isTable(value)) return value;
  throw fields.fail("type", `'${key}' is ${shorten(value)}, no object`);
}
