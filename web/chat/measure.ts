/** How many tokens a question comes to with the conversation before it, before it is asked. */

import { EdgewiseError } from "../errors.ts";
import { MAX_TOKENS } from "./bounds.ts";
import { ask, blankAnswer, type Conversation, prompt } from "./conversations.ts";
import type { Attachment } from "./files.ts";
import type { Answers } from "./going-on.ts";
import { answerOf } from "./thoughts.ts";

export type Measured =
  | { readonly tokens: number; readonly context: number; readonly droppedTurns: number }
  /** Why it does not fit. */
  | { readonly problem: string }
  /** It was not counted: a host counts what it is asked. */
  | null;

/** Ask, and stop before anything is computed: what is asked is written down and counted all the same. */
export async function measured(
  answers: Answers,
  conversation: Conversation,
  content: string,
  files: readonly Attachment[],
  maxTokens = MAX_TOKENS,
): Promise<Measured> {
  const { context } = answers.info;
  const asked = ask(conversation, content, Date.now(), files);
  const blank = blankAnswer(asked);
  if (!blank) return null;
  const { messages, droppedTurns } = prompt(asked, blank, context);
  const options = { contextPolicy: "drop", maxTokens, ...asked.settings } as const;
  try {
    const generation = answerOf(answers, messages, options);
    generation.stop();
    const { usage, droppedTurns: more } = await generation.completion;
    if (usage.promptTokens === 0) return null;
    return { tokens: usage.promptTokens, context, droppedTurns: droppedTurns + more };
  } catch (error) {
    const { code, message, remedy } = EdgewiseError.from(error, "internal", "It was not counted");
    return code === "input.context" ? { problem: `${message} ${remedy}` } : null;
  }
}
