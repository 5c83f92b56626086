/** What Vercel's AI SDK asks of a language model, and what it is to the engine. */

import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4Warning,
} from "@ai-sdk/provider";
import type {
  ChatOptions,
  Message,
  ReasoningEffort,
  ResponseFormatOption,
  ToolChoiceOption,
  ToolDefinition,
} from "../../client/types.ts";
import { EdgewiseError, shorten } from "../../errors.ts";

/** Settings by the names that the engine has for them. */
const OPTIONS = {
  maxOutputTokens: "maxTokens",
  temperature: "temperature",
  stopSequences: "stop",
  topP: "topP",
  topK: "topK",
  presencePenalty: "presencePenalty",
  frequencyPenalty: "frequencyPenalty",
  seed: "seed",
  abortSignal: "signal",
} as const satisfies Partial<Record<keyof LanguageModelV4CallOptions, keyof ChatOptions>>;

export interface Asked {
  readonly messages: readonly Message[];
  readonly options: ChatOptions;
  /** What was asked for and is not done. */
  readonly warnings: SharedV4Warning[];
}

/**
 * What the engine is asked.
 *
 * @throws EdgewiseError `unsupported.content`.
 */
export function askOf(call: LanguageModelV4CallOptions): Asked {
  const warnings: SharedV4Warning[] = [];
  const given = Object.entries(OPTIONS).flatMap(([name, option]) => {
    const value = call[name as keyof typeof OPTIONS];
    return value === undefined || (Array.isArray(value) && value.length === 0)
      ? []
      : [[option, value]];
  });
  const tools = toolsOf(call, warnings);
  const toolChoice = tools.length > 0 ? choiceOf(call.toolChoice) : undefined;
  const responseFormat = formatOf(call.responseFormat);
  const reasoning = reasoningOf(call.reasoning, warnings);
  const options: ChatOptions = {
    ...Object.fromEntries(given),
    ...(tools.length > 0 ? { tools } : {}),
    ...(toolChoice ? { toolChoice } : {}),
    ...(responseFormat ? { responseFormat } : {}),
    ...(reasoning ? { reasoning } : {}),
  };
  return { messages: call.prompt.flatMap(plain), options, warnings };
}

function toolsOf(
  { tools = [] }: LanguageModelV4CallOptions,
  warnings: SharedV4Warning[],
): ToolDefinition[] {
  return tools.flatMap((tool): ToolDefinition[] => {
    if (tool.type !== "function") {
      const details = "Only tools that the page runs are offered.";
      warnings.push({ type: "unsupported", feature: `provider-defined tool ${tool.id}`, details });
      return [];
    }
    const { name, description, inputSchema } = tool;
    const parameters = inputSchema as Readonly<Record<string, unknown>>;
    return [
      { type: "function", function: { name, ...(description ? { description } : {}), parameters } },
    ];
  });
}

function choiceOf(choice: LanguageModelV4CallOptions["toolChoice"]): ToolChoiceOption | undefined {
  if (choice?.type !== "tool") return choice?.type;
  return { type: "function", function: { name: choice.toolName } };
}

function formatOf(
  format: LanguageModelV4CallOptions["responseFormat"],
): ResponseFormatOption | undefined {
  if (format?.type !== "json") return undefined;
  if (!format.schema) return "json";
  const schema = format.schema as Readonly<Record<string, unknown>>;
  return { type: "json_schema", json_schema: { name: format.name ?? "answer", schema } };
}

function reasoningOf(
  effort: LanguageModelV4CallOptions["reasoning"],
  warnings: SharedV4Warning[],
): ReasoningEffort | "none" | undefined {
  if (effort === "provider-default") return undefined;
  if (effort !== "max") return effort;
  warnings.push({ type: "compatibility", feature: "reasoning", details: "max is asked as xhigh." });
  return "xhigh";
}

function plain(message: LanguageModelV4Message, at: number): Message[] {
  const where = `prompt.${at}`;
  switch (message.role) {
    case "system":
      return [{ role: "system", content: message.content }];
    case "user": {
      const texts = message.content.map((part) =>
        part.type === "text" ? part.text : refuse(where, part.type),
      );
      return [{ role: "user", content: texts.join("") }];
    }
    case "assistant":
      return [answerOf(message.content, where)];
    case "tool":
      return message.content.map((part) =>
        part.type === "tool-result" ? resultOf(part, where) : refuse(where, part.type),
      );
  }
}

type AnswerParts = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];

function answerOf(parts: AnswerParts, where: string): Message {
  let text = "";
  let thought = "";
  const calls = [];
  for (const part of parts) {
    if (part.type === "text") text += part.text;
    else if (part.type === "reasoning") thought += part.text;
    else if (part.type === "tool-call") {
      const { toolCallId: id, toolName: name, input } = part;
      const written = typeof input === "string" ? input : JSON.stringify(input ?? {});
      calls.push({ id, type: "function" as const, function: { name, arguments: written } });
    } else refuse(where, part.type);
  }
  return {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    ...(thought === "" ? {} : { reasoning_content: thought }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function resultOf(part: LanguageModelV4ToolResultPart, where: string): Message {
  const content = saidOf(part.output, where);
  return { role: "tool", content, tool_call_id: part.toolCallId, name: part.toolName };
}

function saidOf(output: LanguageModelV4ToolResultOutput, where: string): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return output.reason ?? "The call was not allowed.";
    case "content":
      return output.value
        .map((part) => (part.type === "text" ? part.text : refuse(where, part.type)))
        .join("");
  }
}

function refuse(where: string, type: string): never {
  throw new EdgewiseError(
    "unsupported.content",
    `${where} has a part of type ${shorten(type)}; only text, thoughts, calls and results are read.`,
    'Send parts such as { type: "text", text: "Hello" }.',
  );
}
