/**
 * Chat templates: messages to prompt text, rendered as transformers renders them.
 *
 * A template comes with a checkpoint, so it is foreign code: it sees plain JSON values only, its
 * source, its work and its output are bounded, and whatever it raises becomes an EdgewiseError.
 */

import type { Message } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { type Compiled, compileTemplate, renderTemplate, TemplateLimit } from "./jinja.ts";
import { decodeText, isObject, parseObject } from "./json.ts";

const MAX_SOURCE = 1 << 20;
const MAX_CONFIG_BYTES = 16 << 20;
const MAX_DEPTH = 64;
const REASONING = ["reasoning_content", "thinking", "reasoning"] as const;

export interface RenderOptions {
  /** End with the header of the answer to come. */
  readonly addGenerationPrompt?: boolean;
  /** Whatever else the template reads, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** The default chat template of one checkpoint. */
export class ChatTemplate {
  readonly source: string;
  private readonly compiled: Compiled;
  private readonly specialTokens: ReadonlyMap<string, string>;
  private readonly now: () => Date;

  /**
   * @param specialTokens the names a template may use, such as `bos_token`.
   * @param now what `strftime_now` reads.
   * @throws EdgewiseError `checkpoint.template` for a template that is too large or wrong.
   */
  constructor(
    source: string,
    specialTokens: ReadonlyMap<string, string> = new Map(),
    now: () => Date = () => new Date(),
  ) {
    this.source = source;
    this.compiled = compiled(source);
    this.specialTokens = specialTokens;
    this.now = now;
  }

  /**
   * The template in chat_template.jinja, or else in tokenizer_config.json, or else null.
   *
   * @throws EdgewiseError `checkpoint.template` where there is one that cannot be used.
   */
  static fromFiles(
    template: Uint8Array | null,
    config: Uint8Array | null,
    specialTokens: ReadonlyMap<string, string> = new Map(),
  ): ChatTemplate | null {
    const source = template ? readTemplate(template) : config ? configTemplate(config) : null;
    return source === null ? null : new ChatTemplate(source, specialTokens);
  }

  /**
   * The prompt text of a conversation.
   *
   * Keys of messages whose value is null are dropped.
   *
   * @throws EdgewiseError `input.messages` for what is no conversation, `input.template` for
   *   messages the template refuses or that make too long a text.
   */
  render(messages: readonly Message[], options: RenderOptions = {}): string {
    const variables = new Map<string, unknown>([
      ...this.specialTokens,
      ...Object.entries(options.variables ?? {}).map(([k, v]): [string, unknown] => [k, plain(v)]),
      ["tools", null],
      ["documents", null],
      ["messages", conversation(messages)],
      ["add_generation_prompt", options.addGenerationPrompt ?? true],
    ]);
    try {
      return renderTemplate(this.compiled, variables, this.now);
    } catch (cause) {
      throw refusal(cause);
    }
  }
}

function refusal(cause: unknown): EdgewiseError {
  if (cause instanceof TemplateLimit) {
    return new EdgewiseError(
      "input.template",
      `The chat template was stopped: ${cause.message}.`,
      "Shorten the conversation.",
      { cause },
    );
  }
  const said = cause instanceof Error ? cause.message || cause.name : String(cause);
  return new EdgewiseError(
    "input.template",
    `The model's chat template refuses these messages: ${shortened(said)}.`,
    "Check the order of the roles and that every content is text.",
    { cause },
  );
}

function compiled(source: string): Compiled {
  if (source.length > MAX_SOURCE) {
    throw wrong(
      `The chat template has ${source.length} characters; at most ${MAX_SOURCE} are read.`,
    );
  }
  try {
    return compileTemplate(source);
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause);
    throw wrong(`The chat template is not valid Jinja: ${shortened(said)}.`);
  }
}

function readTemplate(bytes: Uint8Array): string {
  try {
    return decodeText(bytes, MAX_SOURCE);
  } catch (cause) {
    throw EdgewiseError.from(cause, "checkpoint.template", "chat_template.jinja cannot be used");
  }
}

function configTemplate(bytes: Uint8Array): string | null {
  let found: unknown;
  try {
    found = parseObject(bytes, MAX_CONFIG_BYTES).chat_template;
  } catch (cause) {
    throw EdgewiseError.from(cause, "checkpoint.template", "tokenizer_config.json cannot be used");
  }
  if (typeof found === "string") return found;
  if (!Array.isArray(found) || found.length === 0) return null;
  const named = new Map(
    found.map((item: unknown) => {
      if (isObject(item) && typeof item.name === "string" && typeof item.template === "string") {
        return [item.name, item.template];
      }
      throw wrong(
        "The list of chat templates in tokenizer_config.json has an entry without a name and a " +
          "template.",
      );
    }),
  );
  const source = named.get("default");
  if (source === undefined) {
    throw wrong(
      `The model has chat templates named ${[...named.keys()].sort().join(", ")}, none is ` +
        "'default'.",
    );
  }
  return source;
}

function wrong(message: string): EdgewiseError {
  return new EdgewiseError(
    "checkpoint.template",
    message,
    "Write the one to use into the checkpoint's chat_template.jinja and compile it again.",
  );
}

function conversation(messages: readonly Message[]): readonly unknown[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new EdgewiseError(
      "input.messages",
      "The conversation is empty.",
      'Pass at least one message, such as {"role": "user", "content": "Hello"}.',
    );
  }
  return messages.map((message: unknown) => {
    if (!isObject(message)) {
      throw new EdgewiseError(
        "input.messages",
        `${shorten(message)} is not a message.`,
        'A message is an object such as {"role": "user", "content": "Hello"}.',
      );
    }
    const entries = Object.entries(message).filter(([, value]) => (value ?? null) !== null);
    const kept = Object.fromEntries(entries.map(([key, value]) => [key, plain(value)]));
    const named = REASONING.find((name) => Object.hasOwn(kept, name));
    if (named === undefined) return kept;
    // Templates of different ages read different names.
    return { thinking: kept[named], ...kept, reasoning_content: kept[named] };
  });
}

/** Rebuild a value from plain JSON types, so that nothing of a caller's object is in reach. */
function plain(value: unknown, depth = 0): unknown {
  if (value === null || ["string", "number", "boolean"].includes(typeof value)) return value;
  if (value === undefined) return null;
  if (depth < MAX_DEPTH && Array.isArray(value)) return value.map((item) => plain(item, depth + 1));
  if (depth < MAX_DEPTH && isObject(value) && isPlain(value)) {
    const entries = Object.entries(value).map(([key, item]) => [key, plain(item, depth + 1)]);
    return Object.fromEntries(entries);
  }
  return `<${typeof value}>`;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function shortened(said: string): string {
  return said.length <= 500 ? said : `${said.slice(0, 497)}...`;
}
