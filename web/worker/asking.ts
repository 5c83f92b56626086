/**
 * What is asked of an answer: its format, tools, thoughts, and how both are written. Loaded where something is asked,
 * or a conversation goes on.
 */

import { type Format, shownBy } from "../calls/format.ts";
import { formatNamed, formatOf } from "../calls/formats.ts";
import { Parser } from "../calls/parser.ts";
import type { Tools } from "../calls/source.ts";
import type { AnswerReader, Parse } from "../engine/answer.ts";
import type { Hold } from "../engine/constraints.ts";
import { type Reasoning, reasoningOf, variablesOf } from "../engine/reasoning.ts";
import { parseAnswer, type ResponseFormat, responseFormatOf } from "../engine/response-format.ts";
import type { ChatTemplate } from "../engine/template.ts";
import { type ThoughtPiece, ThoughtStream } from "../engine/thinking.ts";
import { CountingReader, type Decoding } from "../engine/thought-tokens.ts";
import { thoughtsOf } from "../engine/thoughts.ts";
import { type ToolChoice, toolChoiceOf } from "../engine/tool-choice.ts";
import { type Tool, toolsOf } from "../engine/tools.ts";
import { EdgewiseError } from "../errors.ts";
import type { Wanted } from "./protocol.ts";

type Template = Pick<ChatTemplate, "render" | "source">;

/** Who reads an answer, the texts that have to be seen in it, and what it is to be held to. */
export interface Reading {
  /** Makes who tells what an answer is: one for each. */
  readonly makeReader: () => AnswerReader;
  readonly marks: readonly string[];
  /** Null where it is free. */
  readonly hold: Hold | null;
}

/**
 * Read and check what is asked of an answer.
 *
 * Without tools nothing is a call: what looks like one is what was said.
 *
 * @param template null where the model has none.
 * @param tokenizer null where nobody counts tokens of thoughts.
 * @throws EdgewiseError `input.tools`, `input.tool_choice`, `input.reasoning`, `input.response_format`, `unsupported.*`.
 */
export function askedOf(
  wanted: Wanted,
  template: Template | null,
  tokenizer: Decoding | null = null,
): Asked {
  const given = toolsOf(wanted.tools);
  const choice = toolChoiceOf(wanted.toolChoice, given);
  const tools = choice.mode === "none" || given?.length === 0 ? null : given;
  const answer = responseFormatOf(wanted.responseFormat);
  if (answer && tools) throw several();
  const { toolFormat = null } = wanted;
  const format = toolFormat === null ? formatOf(template?.source ?? "") : formatNamed(toolFormat);
  const reasoning = reasoningOf(wanted.reasoning);
  return new Asked({ tools, choice, answer, format, reasoning }, template, tokenizer);
}

interface Options {
  readonly tools: readonly Tool[] | null;
  readonly choice: ToolChoice;
  readonly answer: ResponseFormat | null;
  readonly format: Format;
  readonly reasoning: Reasoning;
}

/** What is asked of an answer, checked. */
export class Asked {
  private readonly options: Options;
  private readonly template: Template | null;
  private readonly tokenizer: Decoding | null;

  constructor(options: Options, template: Template | null, tokenizer: Decoding | null) {
    this.options = options;
    this.template = template;
    this.tokenizer = tokenizer;
  }

  /** The tools that may be called, as templates show them; null for none. */
  get described(): readonly Readonly<Record<string, unknown>>[] | null {
    return this.options.tools?.map(({ described }) => described) ?? null;
  }

  /**
   * The variables of the chat template that ask for thoughts.
   *
   * @throws EdgewiseError `unsupported.reasoning` where it has none.
   */
  get switches(): Readonly<Record<string, unknown>> {
    const { template } = this;
    if (!template) return {};
    return variablesOf(this.options.reasoning, (messages, variables) =>
      template.render(messages, { variables }),
    );
  }

  /** An answer to the next turn of a conversation. */
  inConversation(prompt: string): Reading {
    const { reasoning, format } = this.options;
    const [pair] = format.thoughts;
    const known = pair === undefined || (this.template?.source ?? "").includes(pair[0]);
    return this.reading(prompt, known && reasoning.enabled !== false);
  }

  /**
   * An answer to a prompt that is no conversation.
   *
   * @throws EdgewiseError `input.reasoning` for what only a chat template can ask of a model.
   */
  toText(prompt: string): Reading {
    const { enabled, effort } = this.options.reasoning;
    if (enabled === null && effort === null) return this.reading(prompt, false);
    throw new EdgewiseError(
      "input.reasoning",
      "Whether and how hard a model thinks is said by its chat template; this is a prompt.",
      "Use chat, or say it in the prompt; a budget in tokens may be given.",
    );
  }

  private reading(prompt: string, may: boolean): Reading {
    const { tools, choice, answer, format, reasoning } = this.options;
    const { thoughts } = format;
    const [pair] = thoughts;
    const opened = pair !== undefined && prompt.trimEnd().endsWith(pair[0]);
    const callable = tools && schemasOf(tools);
    // A format without marks of thoughts tells them by its calls' reader.
    const plain = callable === null && thoughts.length > 0;
    const marks = plain ? thoughts.flat() : shownBy(format);
    const makeParser = () =>
      plain
        ? thoughtsAlone(new ThoughtStream(thoughts, opened))
        : new Parser(format, { tools: callable, opened });
    const { mode, name } = choice;
    const calls =
      callable && mode !== "none" ? { format, tools: callable, choice: mode, name } : null;
    const free = answer === null && calls === null && reasoning.budget === null;
    const held = thoughtsOf(format, { shown: marks, may, opened });
    return {
      makeReader: () => new CountingReader(makeParser(), answer && parsing(answer), this.tokenizer),
      marks,
      hold: free ? null : { answer, calls, thoughts: held, budget: reasoning.budget },
    };
  }
}

function thoughtsAlone(stream: ThoughtStream): Pick<Parser, "feed" | "end"> {
  const deltas = (pieces: readonly ThoughtPiece[]) =>
    pieces.map(({ thought, text }) => {
      const kind = thought ? ("reasoning" as const) : ("content" as const);
      return { kind, text };
    });
  return { feed: (text) => deltas(stream.push(text)), end: () => deltas(stream.finish()) };
}

function parsing(format: ResponseFormat): Parse {
  return (text) => {
    try {
      return { value: parseAnswer(format, text) };
    } catch (error) {
      if (error instanceof EdgewiseError) return null;
      throw error;
    }
  };
}

function schemasOf(tools: readonly Tool[]): Tools {
  return Object.fromEntries(tools.map(({ name, parameters }) => [name, parameters]));
}

function several(): EdgewiseError {
  return new EdgewiseError(
    "input.response_format",
    "responseFormat says what an answer has to be, and tools may be called in it.",
    'Pass toolChoice: "none", or leave out responseFormat.',
  );
}
