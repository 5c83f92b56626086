/**
 * Chat templates: messages to prompt text, rendered as transformers renders them.
 *
 * A template comes with a checkpoint, so it is foreign code: it sees plain JSON values only, its
 * source, its work, its memory and its output are bounded (`jinja`), and whatever it raises becomes an
 * EdgewiseError.
 */

import type { Message } from "../client/types.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { type Compiled, compileTemplate, renderTemplate } from "./jinja/render.ts";
import { TemplateError, TemplateLimitError } from "./jinja/run.ts";
import { Float, type Key, type Value } from "./jinja/values.ts";
import { decodeText, isObject, parseObject } from "./json.ts";
import { type CallForm, callForm } from "./tool-calls.ts";

const MAX_SOURCE = 1 << 20;
const MAX_CONFIG_BYTES = 16 << 20;
/** Lists and objects within one another that a message may have. */
const MAX_DEPTH = 64;
/** Values that a conversation may have, everything nested counted. */
const MAX_VALUES = 1 << 18;
const REASONING = ["reasoning_content", "thinking", "reasoning"] as const;

export interface RenderOptions {
  /** JSON schemas of functions, for templates that show them. */
  readonly tools?: readonly Readonly<Record<string, unknown>>[] | null;
  /** End with the header of the answer to come. */
  readonly addGenerationPrompt?: boolean;
  /** Whatever else the template reads, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Sources of templates by name: a default one and perhaps one for tools. */
type Sources = ReadonlyMap<string, string>;

/** The chat templates of one checkpoint: a default one and perhaps one for tools. */
export class ChatTemplate {
  /** All of them, for those who look for a text in them. */
  readonly source: string;
  private readonly compiled: Compiled;
  private readonly compiledForTools: Compiled;
  private form: CallForm | null = null;
  private readonly specialTokens: ReadonlyMap<string, string>;
  private readonly now: () => Date;

  /**
   * @param specialTokens the names a template may use, such as `bos_token`.
   * @param now what `strftime_now` reads.
   * @throws EdgewiseError `checkpoint.template` for a template that is too large or wrong.
   */
  constructor(
    sources: string | Sources,
    specialTokens: ReadonlyMap<string, string> = new Map(),
    now: () => Date = () => new Date(),
  ) {
    const named = typeof sources === "string" ? new Map([["default", sources]]) : sources;
    const source = named.get("default") ?? "";
    const forTools = named.get("tool_use");
    this.source = forTools === undefined ? source : `${source}\0${forTools}`;
    this.compiled = compiled(source);
    this.compiledForTools = forTools === undefined ? this.compiled : compiled(forTools);
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
    const sources = template ? readTemplate(template) : config ? configTemplates(config) : null;
    return sources === null ? null : new ChatTemplate(sources, specialTokens);
  }

  /** How earlier calls of tools have to be written for it, see `withCalls`. */
  get callForm(): CallForm {
    this.form ??= callForm((messages, tools) => this.render(messages, { tools }));
    return this.form;
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
    const plain = new Plain();
    const variables = new Map<string, Value>([
      ...this.specialTokens,
      ...Object.entries(options.variables ?? {}).map(([key, value]): [string, Value] => [
        key,
        plain.value(value),
      ]),
      ["tools", plain.value(options.tools ?? null)],
      ["documents", null],
      ["messages", conversation(messages, plain)],
      ["add_generation_prompt", options.addGenerationPrompt ?? true],
    ]);
    try {
      const chosen = options.tools ? this.compiledForTools : this.compiled;
      return renderTemplate(chosen, variables, this.now(), plain.characters);
    } catch (cause) {
      throw refusal(cause);
    }
  }
}

function refusal(cause: unknown): unknown {
  if (!(cause instanceof TemplateError)) return cause;
  return new EdgewiseError(
    "input.template",
    `The model's chat template refuses these messages: ${shortened(cause.message)}.`,
    cause instanceof TemplateLimitError
      ? "Shorten the conversation, or compare chat_template.jinja with the one the model was " +
          "published with."
      : "Check the order of the roles and that every content is text.",
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
    if (!(cause instanceof TemplateError)) throw cause;
    throw wrong(
      "The chat template is not valid Jinja, or not what is supported of it: " +
        `${shortened(cause.message)}.`,
    );
  }
}

function readTemplate(bytes: Uint8Array): string {
  try {
    return decodeText(bytes, MAX_SOURCE);
  } catch (cause) {
    throw EdgewiseError.from(cause, "checkpoint.template", "chat_template.jinja cannot be used");
  }
}

function configTemplates(bytes: Uint8Array): string | Sources | null {
  let found: unknown;
  try {
    found = parseObject(bytes, MAX_CONFIG_BYTES).chat_template;
  } catch (cause) {
    throw EdgewiseError.from(cause, "checkpoint.template", "tokenizer_config.json cannot be used");
  }
  if (typeof found === "string") return found;
  if (!Array.isArray(found) || found.length === 0) return null;
  const named = new Map(
    found.map((item: unknown): [string, string] => {
      if (isObject(item) && typeof item.name === "string" && typeof item.template === "string") {
        return [item.name, item.template];
      }
      throw wrong(
        "The list of chat templates in tokenizer_config.json has an entry without a name and a " +
          "template.",
      );
    }),
  );
  if (!named.has("default")) {
    throw wrong(
      `The model has chat templates named ${[...named.keys()].sort().join(", ")}, none is ` +
        "'default'.",
    );
  }
  return named;
}

function wrong(message: string): EdgewiseError {
  return new EdgewiseError(
    "checkpoint.template",
    message,
    "Write the one to use into the checkpoint's chat_template.jinja and compile it again.",
  );
}

function conversation(messages: readonly Message[], plain: Plain): Value[] {
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
    const kept = new Map(entries.map(([key, value]) => [key, plain.value(value)]));
    const named = REASONING.find((name) => kept.has(name));
    const thought = named === undefined ? undefined : kept.get(named);
    if (thought === undefined) return kept;
    // Templates of different ages read different names.
    return new Map([["thinking", thought], ...kept, ["reasoning_content", thought]]);
  });
}

/** Rebuilds values from plain JSON types, so that nothing of a caller's object is in reach. */
class Plain {
  /** Of the texts that were rebuilt. */
  characters = 0;
  private values = 0;

  value(value: unknown, depth = 0): Value {
    this.values += 1;
    if (this.values > MAX_VALUES || depth > MAX_DEPTH) {
      throw new EdgewiseError(
        "input.messages",
        `The conversation has more than ${MAX_VALUES} values, or some more than ${MAX_DEPTH} deep ` +
          "within one another.",
        "Shorten the conversation, and pass no list or object that holds itself.",
      );
    }
    if (typeof value === "string") {
      this.characters += value.length;
      return value;
    }
    if (value === null || value === undefined) return null;
    if (typeof value === "boolean") return value;
    // What is whole in JSON is whole here: JavaScript does not tell 1.0 from 1.
    if (typeof value === "number") return Number.isSafeInteger(value) ? value : new Float(value);
    if (Array.isArray(value)) return value.map((item) => this.value(item, depth + 1));
    if (isObject(value) && isPlain(value)) {
      const entries = Object.entries(value).map(([key, item]): [Key, Value] => {
        this.characters += key.length;
        return [key, this.value(item, depth + 1)];
      });
      return new Map(entries);
    }
    return `<${typeof value}>`;
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function shortened(said: string): string {
  return said.length <= 500 ? said : `${said.slice(0, 497)}...`;
}
