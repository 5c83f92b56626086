/** Options of `edgewise.v1` as engines of tabs take them. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { ChatOptions } from "./types.ts";

/** By the protocol's names. */
const NAMES = {
  begun: "begun",
  context_policy: "contextPolicy",
  frequency_penalty: "frequencyPenalty",
  ignore_eos: "ignoreEos",
  logit_bias: "logitBias",
  max_tokens: "maxTokens",
  min_p: "minP",
  min_tokens: "minTokens",
  presence_penalty: "presencePenalty",
  priority: "priority",
  reasoning: "reasoning",
  repetition_penalty: "repetitionPenalty",
  response_format: "responseFormat",
  seed: "seed",
  special_tokens: "specialTokens",
  stop: "stop",
  stop_token_ids: "stopTokenIds",
  temperature: "temperature",
  tool_choice: "toolChoice",
  tool_format: "toolFormat",
  top_k: "topK",
  top_p: "topP",
} as const satisfies Readonly<Record<string, keyof ChatOptions>>;

/** The protocol's names by ours. */
export const OPTION_NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(NAMES).map(([wire, name]) => [name, wire]),
);

/**
 * Options by our names; the engine checks their values.
 *
 * @throws EdgewiseError `unsupported.tab` for one that engines of tabs do not have.
 */
export function lentOptions(options: Readonly<Record<string, unknown>>): ChatOptions {
  const given = Object.entries(options).map(([name, value]) => {
    if (!Object.hasOwn(NAMES, name)) {
      throw new EdgewiseError(
        "unsupported.tab",
        `${name} is ${shorten(value)}, which this tab does not do.`,
        `Leave out ${name}, or load the app again for a newer one.`,
      );
    }
    return [NAMES[name as keyof typeof NAMES], name === "seed" ? seedOf(value) : value];
  });
  return Object.fromEntries(given);
}

/** A seed has 64 bits, more than a number of JSON's holds here, so it comes as text. */
function seedOf(value: unknown): unknown {
  return typeof value === "string" && /^-?[0-9]{1,20}$/.test(value) ? BigInt(value) : value;
}
