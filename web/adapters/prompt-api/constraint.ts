/** What an answer is constrained to: a JSON schema, a regular expression, or a beginning. */

import type { Message, ResponseFormatOption } from "../../client/types.ts";
import { shorten } from "../../errors.ts";
import { refused } from "./errors.ts";
import type { Input } from "./input.ts";
import type { LanguageModelPromptOptions } from "./types.ts";

export interface Constrained extends Input {
  readonly responseFormat: ResponseFormatOption | null;
  /** An answer that ended early is none then. */
  readonly whole: boolean;
}

interface Constraint {
  readonly responseFormat: ResponseFormatOption;
  /** What the model is told of it. */
  readonly told: string;
}

/** Flags that change nothing of which whole texts match. */
const HARMLESS = /^[dgyuv]*$/;

/**
 * The input with what its answer has to be, of which the model is told at the end of the last message.
 *
 * @throws TypeError for what is no constraint, NotSupportedError for flags and for a prefix besides.
 */
export function constrained(input: Input, options: LanguageModelPromptOptions): Constrained {
  const { responseConstraint: given, omitResponseConstraintInput: omit = false } = options;
  const { prefix } = input;
  if (given === undefined) {
    if (omit) throw new TypeError("omitResponseConstraintInput is for a responseConstraint.");
    return { ...input, responseFormat: prefix === "" ? null : beginning(prefix), whole: false };
  }
  if (prefix !== "") throw refused("A prefix and a responseConstraint at once are not supported.");
  const { responseFormat, told } = constraintOf(given);
  const messages = omit ? input.messages : toldOf(input.messages, told);
  return { messages, prefix, responseFormat, whole: true };
}

function constraintOf(given: unknown): Constraint {
  if (Object.prototype.toString.call(given) === "[object RegExp]") {
    const { source, flags } = given as RegExp;
    if (!HARMLESS.test(flags)) throw refused(`The flags ${flags} of a RegExp are not supported.`);
    const told = `Answer with a text that matches the regular expression ${source}`;
    return { responseFormat: { type: "regex", pattern: source }, told };
  }
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    throw new TypeError(`responseConstraint is ${shorten(given)}, no JSON schema and no RegExp.`);
  }
  const text = JSON.stringify(given);
  const schema: Readonly<Record<string, unknown>> = JSON.parse(text);
  return {
    responseFormat: { type: "json_schema", json_schema: { name: "answer", schema } },
    told: `Answer with JSON that follows this JSON schema: ${text}`,
  };
}

function toldOf(messages: readonly Message[], told: string): readonly Message[] {
  const last = messages.at(-1);
  if (last?.role !== "user") return [...messages, { role: "user", content: told }];
  return [...messages.slice(0, -1), { ...last, content: `${last.content ?? ""}\n\n${told}` }];
}

/** Whatever begins so. */
function beginning(prefix: string): ResponseFormatOption {
  const escaped = prefix.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return { type: "regex", pattern: `${escaped}[^\\x00]*` };
}
