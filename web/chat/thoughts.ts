/** Thoughts, which a model writes between `<think>` and `</think>` before its answer. */

import type { ChatOptions, EngineInfo, Generation, Message, Thinking } from "../client/types.ts";

export interface Parted {
  /** What was thought; empty where nothing was. */
  readonly thought: string;
  /** Whether the thought has no end yet. */
  readonly thinking: boolean;
  /** What was said. */
  readonly text: string;
}

const OPEN = "<think>";
const CLOSE = "</think>";
/** The end of a thought whose beginning is not there; in the middle of a line it is a word of an answer. */
const ENDS_LINE = /<\/think>[^\S\n]*(?:\n|$)/;

/** A model's text, parted into what it thought and what it said. */
export function parted(content: string): Parted {
  const start = content.length - content.trimStart().length;
  const opened = content.startsWith(OPEN, start);
  const end = opened ? content.indexOf(CLOSE, start) : content.search(ENDS_LINE);
  if (end < 0 && !opened) return { thought: "", thinking: false, text: content };
  const from = opened ? start + OPEN.length : 0;
  return {
    thought: content.slice(from, end < 0 ? undefined : end).trim(),
    thinking: end < 0,
    text: end < 0 ? "" : content.slice(end + CLOSE.length).trimStart(),
  };
}

/** Tells how long a thought took, from pieces of text as they come. */
export class ThoughtTimer {
  private readonly before: number;
  private began: number | null = null;
  /** The first characters while it is not told whether they open a thought, later the last ones. */
  private seen = "";
  private thinking: boolean | null = null;

  /** @param before milliseconds that were thought of an answer which goes on from its beginning. */
  constructor(before = 0) {
    this.before = before;
  }

  /** Note a piece at a time in milliseconds; what there is to keep of a thought then. */
  add(piece: string, at: number): { readonly thoughtMs?: number } {
    if (this.thinking === false) return {};
    this.began ??= at;
    const seen = (this.seen + piece).trimStart();
    this.thinking ??= seen.startsWith(OPEN) || (OPEN.startsWith(seen) ? null : false);
    this.seen = this.thinking ? seen.slice(1 - CLOSE.length) : seen;
    if (!this.thinking) return {};
    if (seen.includes(CLOSE)) this.thinking = false;
    return { thoughtMs: this.before + at - this.began };
  }
}

/** What answers, and what its template does about thoughts. */
export interface Thinker {
  readonly info: { readonly thinking: EngineInfo["thinking"] };
  chat(messages: readonly Message[], options: ChatOptions): Generation;
}

/**
 * An answer whose text begins with `<think>` where it begins with a thought, also where the prompt
 * said so. Thoughts of earlier answers are not given where the template forgets them: those that were
 * cut off it would not recognize.
 */
export function answerOf(
  thinker: Thinker,
  messages: readonly Message[],
  options: ChatOptions,
): Generation {
  const { thinking } = thinker.info;
  const given = thinking?.forgets ? messages.map(withoutThought) : messages;
  const generation = thinker.chat(given, options);
  return thinking?.opened[thinks(thinking, options) ? "on" : "off"]
    ? beginning(`${OPEN}\n`, generation)
    : generation;
}

/** Whether a model thinks with these options. */
export function thinks({ switchable, byDefault }: Thinking, { variables }: ChatOptions): boolean {
  const asked = variables?.enable_thinking;
  return switchable && typeof asked === "boolean" ? asked : byDefault;
}

function withoutThought(message: Message): Message {
  const { role, content } = message;
  if (role !== "assistant" || content === null) return message;
  return { ...message, content: parted(content).text };
}

function beginning(opening: string, generation: Generation): Generation {
  return {
    completion: generation.completion,
    stop: () => generation.stop(),
    async *[Symbol.asyncIterator]() {
      let before = opening;
      for await (const text of generation) {
        yield before + text;
        before = "";
      }
    },
  };
}
