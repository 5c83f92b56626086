/** What a chat asks of its answer: tools, thoughts, and the format that both are told in. */

import { formatNamed, formatOf } from "../calls/formats.ts";
import type { Told } from "../engine/answer.ts";
import { reasoningOf, variablesOf } from "../engine/reasoning.ts";
import type { ChatTemplate } from "../engine/template.ts";
import { toolChoiceOf } from "../engine/tool-choice.ts";
import { type Tool, toolsOf } from "../engine/tools.ts";
import { EdgewiseError } from "../errors.ts";
import type { ChatPrompt } from "./protocol.ts";

export interface Asked extends Told {
  /** What the prompt tells of; null for none. */
  readonly tools: readonly Tool[] | null;
  /** What the template reads. */
  readonly variables: Readonly<Record<string, unknown>>;
}

/**
 * Read and check the options of a chat that say what its answer is.
 *
 * Without tools nothing is a call: what looks like one is what was said.
 *
 * @throws EdgewiseError `input.tools`, `input.tool_choice`, `input.reasoning`, `unsupported.*`.
 */
export function askedOf(
  prompt: Pick<ChatPrompt, "tools" | "toolChoice" | "toolFormat" | "reasoning" | "variables">,
  template: Pick<ChatTemplate, "render" | "source">,
): Asked {
  const given = toolsOf(prompt.tools);
  const { mode } = toolChoiceOf(prompt.toolChoice, given);
  if (mode === "required" || mode === "named") throw unforced(mode);
  const reasoning = reasoningOf(prompt.reasoning);
  if (reasoning.budget !== null) throw unbounded(reasoning.budget);
  const asked = variablesOf(reasoning, (messages, variables) =>
    template.render(messages, { variables }),
  );
  const { toolFormat } = prompt;
  const format = toolFormat === null ? formatOf(template.source) : formatNamed(toolFormat);
  const tools = mode === "none" || given?.length === 0 ? null : given;
  const callable =
    tools && Object.fromEntries(tools.map(({ name, parameters }) => [name, parameters]));
  return { tools, callable, format, variables: { ...asked, ...prompt.variables } };
}

function unforced(mode: string): EdgewiseError {
  return new EdgewiseError(
    "unsupported.tool_choice",
    `toolChoice makes the model call a tool (${mode}), which is not done here.`,
    "Pass auto, and look whether the completion has toolCalls.",
  );
}

function unbounded(budget: number): EdgewiseError {
  return new EdgewiseError(
    "unsupported.reasoning",
    `A budget of ${budget} tokens for thoughts cannot be kept here.`,
    "Leave it out, or bound the whole answer with maxTokens.",
  );
}
