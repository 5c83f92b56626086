/** Whether an answer that was cut off can go on. */

import type {
  ChatOptions as AnswerOptions,
  EngineInfo,
  Generation,
  Message,
} from "../client/types.ts";
import { type ChatMessage, tokensOf } from "./conversations.ts";

/** What answers: an engine. */
export interface Answers {
  readonly info: Pick<EngineInfo, "context" | "thinking" | "tokenizer">;
  /** Where it answers; this device where nothing is said. */
  readonly where?: "host";
  chat(messages: readonly Message[], options: AnswerOptions): Generation;
}

type Branch = readonly ChatMessage[];

/** Whether the last answer of a branch was cut off and this model can go on with it. */
export function canGoOn(branch: Branch, answers: Pick<Answers, "info">): boolean {
  return isCut(branch, answers) && !fillsContext(branch, answers);
}

/**
 * Whether the last answer of a branch was cut off where it and its question fill the context of this
 * model: no turns are left that could make room for more of it.
 */
export function isFull(branch: Branch, answers: Pick<Answers, "info">): boolean {
  return isCut(branch, answers) && fillsContext(branch, answers);
}

/** By this model, or one with its tokenizer. */
function isCut(branch: Branch, { info }: Pick<Answers, "info">): boolean {
  const cut = branch.at(-1)?.cut;
  return cut !== undefined && cut.tokenizer === info.tokenizer;
}

function fillsContext(branch: Branch, { info }: Pick<Answers, "info">): boolean {
  const questions = branch.filter(({ role }) => role === "user").length;
  const dropped = branch.at(-1)?.stats?.droppedTurns ?? 0;
  return questions - dropped <= 1 && tokensOf(branch) >= info.context;
}
