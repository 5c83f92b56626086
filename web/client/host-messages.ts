/** What a host says of generations: docs/protocol.md. Checked, since anybody may have answered. */

import { isTable, plainJson } from "../engine/plain.ts";
import { EdgewiseError, type ErrorJson, shorten } from "../errors.ts";
import { Fields } from "../format/reading.ts";
import type { AnswerDelta, FinishReason } from "./types.ts";

/** One choice that is whole. */
export interface Choice {
  readonly reason: FinishReason | "timeout";
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly {
    readonly id: string;
    readonly name: string;
    readonly arguments: string;
  }[];
  readonly usage: {
    readonly prompt: number;
    readonly completion: number;
    readonly cached: number;
  };
  /** Seconds and tokens a second, by the protocol's names. */
  readonly timings: Readonly<Record<string, number>>;
  readonly seed: string;
  readonly contextFull: boolean;
  readonly droppedTurns: number;
}

export type HostMessage =
  | {
      readonly type: "accepted";
      readonly id: string;
      readonly secret: string;
      readonly n: number;
    }
  | {
      readonly type: "piece";
      readonly id: string;
      readonly n: number;
      readonly deltas: readonly AnswerDelta[];
      readonly tokens: readonly number[];
    }
  | {
      readonly type: "done";
      readonly id: string;
      readonly n: number;
      readonly cancelled: boolean;
      readonly choice: Choice | null;
    }
  | {
      readonly type: "error";
      readonly id: string | null;
      readonly error: ErrorJson;
    }
  | { readonly type: "pong" };

const MAX_CHARACTERS = 32 << 20;
const MAX_ITEMS = 1 << 16;
const MAX_TEXT = 16 << 20;
const MAX_SAID = 8192;
const MAX_NUMBER = 2 ** 53 - 1;
const REASONS = ["stop", "length", "cancelled", "tool_calls", "timeout"] as const;

/**
 * A message of the host.
 *
 * @throws EdgewiseError `host.*` for what is none.
 */
export function readHostMessage(data: unknown): HostMessage {
  if (typeof data !== "string" || data.length > MAX_CHARACTERS) {
    throw new EdgewiseError("host.wrong", "The host sent what is no message, or too long for one.");
  }
  const fields = part(parsed(data), "The message");
  const type = fields.get("type");
  const reader = typeof type === "string" && Object.hasOwn(READERS, type) ? READERS[type] : null;
  if (!reader) throw fields.fail("wrong", `'type' is ${shorten(type)}, which is none`);
  return reader(fields);
}

const READERS: Readonly<Record<string, (fields: Fields) => HostMessage>> = {
  accepted: (fields) => ({
    type: "accepted",
    id: fields.text("id"),
    secret: fields.text("secret"),
    n: count(fields, "n"),
  }),
  piece: (fields) => ({
    type: "piece",
    id: fields.text("id"),
    n: count(fields, "n"),
    deltas: fields.items("deltas", MAX_ITEMS).map(deltaOf),
    tokens: tokensOf(fields),
  }),
  done(fields) {
    const choices = fields.items("choices", 1);
    return {
      type: "done",
      id: fields.text("id"),
      n: count(fields, "n"),
      cancelled: fields.flag("cancelled"),
      choice: choices.length > 0 ? choiceOf(choices[0]) : null,
    };
  },
  error: (fields) => ({
    type: "error",
    id: fields.has("id") ? fields.text("id") : null,
    error: {
      code: fields.text("code"),
      message: fields.text("message", null, MAX_SAID),
      remedy: fields.text("remedy", null, MAX_SAID),
    },
  }),
  pong: () => ({ type: "pong" }),
};

function parsed(data: string): unknown {
  try {
    return plainJson(JSON.parse(data), "The message", "host.wrong");
  } catch (cause) {
    throw EdgewiseError.from(cause, "host.wrong", "The host sent what is no JSON");
  }
}

function part(value: unknown, where: string): Fields {
  return new Fields(isTable(value) ? new Map(Object.entries(value)) : value, where, "host");
}

function count(fields: Fields, key: string): number {
  return fields.integer(key, 0, MAX_NUMBER);
}

function tokensOf(fields: Fields): readonly number[] {
  const ids = fields.items("token_ids", MAX_ITEMS);
  const odd = ids.find((id) => !(Number.isInteger(id) && Number(id) >= 0));
  if (odd !== undefined) throw fields.fail("wrong", `'token_ids' holds ${shorten(odd)}`);
  return ids as readonly number[];
}

function deltaOf(value: unknown): AnswerDelta {
  const fields = part(value, "A delta");
  const text = () => fields.text("text", null, MAX_TEXT);
  const index = () => count(fields, "index");
  const kind = fields.choice("type", [
    "content",
    "reasoning",
    "call_begins",
    "arguments",
    "call_ends",
    "no_call",
  ]);
  switch (kind) {
    case "content":
    case "reasoning":
      return { kind, text: text() };
    case "call_begins": {
      const name = fields.text("name", null, MAX_SAID);
      return { kind: "call begins", index: index(), id: fields.text("id"), name };
    }
    case "arguments":
      return { kind, index: index(), text: text() };
    case "call_ends":
      return { kind: "call ends", index: index() };
    case "no_call":
      return {
        kind: "no call",
        index: fields.nullable("index", index),
        text: text(),
        why: fields.choice("why", ["malformed", "cut", "too long"]),
      };
  }
}

function choiceOf(value: unknown): Choice {
  const fields = part(value, "A choice");
  const usage = part(fields.get("usage"), "The usage");
  const timings = part(fields.get("timings"), "The timings");
  const seconds = (key: string) => {
    const found = timings.get(key);
    if (typeof found === "number" && found >= 0) return found;
    throw timings.fail("wrong", `'${key}' is ${shorten(found)}`);
  };
  return {
    reason: fields.choice("reason", REASONS),
    text: fields.text("text", null, MAX_TEXT),
    reasoning: fields.text("reasoning", null, MAX_TEXT),
    calls: fields.items("calls", MAX_ITEMS).map((item) => {
      const call = part(item, "A call");
      return {
        id: call.text("id"),
        name: call.text("name", null, MAX_SAID),
        arguments: call.text("arguments", null, MAX_TEXT),
      };
    }),
    usage: {
      prompt: count(usage, "prompt_tokens"),
      completion: count(usage, "completion_tokens"),
      cached: count(usage, "cached_tokens"),
    },
    timings: Object.fromEntries(TIMINGS.map((key) => [key, seconds(key)])),
    // Of 64 bits: this one may have lost some, and is what there is.
    seed: BigInt(Math.trunc(fields.integer("seed", 0, 2 ** 64))).toString(),
    contextFull: fields.flag("context_full"),
    droppedTurns: count(fields, "dropped_turns"),
  };
}

const TIMINGS = [
  "ttft_s",
  "prefill_s",
  "decode_s",
  "prefill_tokens_per_s",
  "decode_tokens_per_s",
] as const;
