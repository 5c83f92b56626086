/** What a page asks for as a prompt, made token ids. */

import { AnswerReader } from "../engine/answer.ts";
import type { ControlTokens } from "../engine/control.ts";
import type { Request } from "../engine/engine.ts";
import { isObject } from "../engine/json.ts";
import type { ChatTemplate } from "../engine/template.ts";
import type { Tokenizer } from "../engine/tokenizer.ts";
import { hasCalls, withCalls } from "../engine/tool-calls.ts";
import { fitting } from "../engine/window.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import type { Asked, Reading } from "./asking.ts";
import type { ChatPrompt, Prompt } from "./protocol.ts";

/** Tokens of a prompt in which the mark of a thought is looked for, at its end. */
const LAST = 16;
const LAST_CHARACTERS = 256;

/** What a model's files say about text. */
export interface Texts {
  /** The model's name, for errors. */
  readonly name: string;
  readonly tokenizer: Pick<Tokenizer, "decode" | "encode" | "exceeds">;
  readonly template: Pick<ChatTemplate, "render" | "callForm" | "source"> | null;
  readonly controls: Pick<ControlTokens, "encode" | "hide" | "hideIn" | "shown">;
}

/** What the engine is given, and who tells what its text is. */
export interface Prompted extends Omit<Request, "params" | "constraint" | "marks">, Reading {}

/**
 * The prompt as token ids, in a context of so many tokens, and what is asked of its answer.
 *
 * @param asked null where nothing is, of a prompt that is no conversation.
 * @param maxTokens what the answer may have, for which room is made where turns have to go.
 * @throws EdgewiseError `input.no_template`, `input.option`, `input.context`, and what template and tokenizer throw.
 */
export function promptOf(
  prompt: Prompt,
  asked: Asked | null,
  texts: Texts,
  context: number,
  maxTokens: number,
): Prompted {
  return prompt.kind === "chat"
    ? ofConversation(prompt, asked, texts, context, maxTokens)
    : ofText(prompt, asked, texts, context);
}

/** A prompt as it is, whose answer is told apart only where something is asked of it. */
function ofText(
  prompt: Exclude<Prompt, ChatPrompt>,
  asked: Asked | null,
  { tokenizer }: Texts,
  context: number,
): Prompted {
  if (prompt.kind === "text" && tokenizer.exceeds(prompt.text, context)) throw tooLong(context);
  const ids = prompt.kind === "text" ? tokenizer.encode(prompt.text) : prompt.tokens;
  if (!asked) return { prompt: ids, makeReader: () => new AnswerReader(), marks: [], hold: null };
  const end = prompt.kind === "text" ? prompt.text : tokenizer.decode(ids.slice(-LAST));
  return { prompt: ids, ...asked.toText(end) };
}

/** The next turn of a conversation. */
function ofConversation(
  prompt: ChatPrompt,
  asked: Asked | null,
  { name, tokenizer, template, controls }: Texts,
  context: number,
  maxTokens: number,
): Prompted {
  if (!template || !asked) {
    throw new EdgewiseError(
      "input.no_template",
      `${name} has no chat template, so its chat format is not known.`,
      "Put a chat_template.jinja into the checkpoint folder and compile again, or give the " +
        "prompt as text with generate().",
    );
  }
  const { begun, contextPolicy, specialTokens } = prompt;
  if (!Array.isArray(begun)) throw refused("begun", begun, "a list of token ids");
  if (!isObject(prompt.variables)) throw refused("variables", prompt.variables, "an object");
  if (!["text", "control"].includes(specialTokens)) {
    throw refused("specialTokens", specialTokens, "text or control");
  }
  const text = specialTokens === "text";
  const shown = asked.described;
  // Before anything is hidden: what is no token in JSON text may be one in what it says.
  const told = hasCalls(prompt.messages)
    ? withCalls(prompt.messages, template.callForm)
    : prompt.messages;
  const messages = text ? controls.hide(told) : told;
  const tools = text ? controls.hideIn(shown) : shown;
  const given = { ...asked.switches, ...prompt.variables };
  const variables = text ? controls.hideIn(given) : given;
  let ending = "";
  // The template writes the special tokens itself.
  const encode: Parameters<typeof fitting>[1] = (kept) => {
    const written = template.render(kept, { addGenerationPrompt: true, tools, variables });
    ending = written.slice(-LAST_CHARACTERS);
    // What is hidden may be longer than what it stands for.
    const long = (told: string) => tokenizer.exceeds(told, context);
    if (long(written) && long(text ? controls.shown(written) : written)) return null;
    return [...(text ? controls.encode(written) : tokenizer.encode(written, false)), ...begun];
  };
  const answer = () => ({
    begun: begun.length,
    ...asked.inConversation(ending),
  });
  if (contextPolicy === "stop") {
    const ids = encode(messages);
    if (ids === null) throw begun.length > 0 ? filled(context) : tooLong(context);
    if (begun.length > 0 && ids.length >= context) throw filled(context);
    return { prompt: ids, ...answer() };
  }
  if (contextPolicy !== "drop") throw refused("contextPolicy", contextPolicy, "stop or drop");
  try {
    const { ids, droppedTurns } = fitting(messages, encode, context, maxTokens);
    return { prompt: ids, droppedTurns, ...answer() };
  } catch (error) {
    const full = error instanceof EdgewiseError && error.code === "input.context";
    throw full && begun.length > 0 ? filled(context) : error;
  }
}

/** A text that no context of so many tokens holds, whatever its tokens are. */
function tooLong(context: number): EdgewiseError {
  return new EdgewiseError(
    "input.context",
    `The prompt has more characters than ${context} tokens can stand for; that is what the ` +
      "context holds.",
    "Shorten the prompt, or load the model with a larger context.",
  );
}

/** An answer that is to go on cannot: nothing of its turn can be left out. */
function filled(context: number): EdgewiseError {
  return new EdgewiseError(
    "input.context",
    `The question and the answer so far fill the context of ${context} tokens: it cannot go on.`,
    "Ask for the rest in a new question, or load the model with a larger context.",
  );
}

function refused(name: string, value: unknown, wanted: string): EdgewiseError {
  return new EdgewiseError("input.option", `${name} is ${shorten(value)}; it must be ${wanted}.`);
}
