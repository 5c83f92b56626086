/** Thoughts, which a model writes before its answer. */

import type {
  AnswerDelta,
  ChatOptions,
  EngineInfo,
  Generation,
  Message,
  Thinking,
} from "../client/types.ts";

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

/** A model's text as it wrote it, its thought between `<think>` and `</think>`, parted into what it thought and said. */
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

/** Tells how long a thought took, from what comes of an answer. */
export class ThoughtTimer {
  private readonly before: number;
  private began: number | null = null;

  /** @param before milliseconds that were thought of an answer which goes on from its beginning. */
  constructor(before = 0) {
    this.before = before;
  }

  /** Note what comes at a time in milliseconds; what there is to keep of a thought then. */
  add({ kind }: AnswerDelta, at: number): { readonly thoughtMs?: number } {
    if (kind !== "reasoning") return {};
    this.began ??= at;
    return { thoughtMs: this.before + at - this.began };
  }
}

/** What answers, and what its template does about thoughts. */
export interface Thinker {
  readonly info: { readonly thinking: EngineInfo["thinking"] };
  chat(messages: readonly Message[], options: ChatOptions): Generation;
}

/**
 * An answer. Thoughts of earlier answers are not given where the template forgets them, else in the text, as the
 * model wrote them.
 */
export function answerOf(
  thinker: Thinker,
  messages: readonly Message[],
  options: ChatOptions,
): Generation {
  const forgets = thinker.info.thinking?.forgets ?? false;
  return thinker.chat(
    messages.map((message) => withoutThought(message, forgets)),
    options,
  );
}

/** Whether a model thinks with these options. */
export function thinks({ switchable, byDefault }: Thinking, { variables }: ChatOptions): boolean {
  const asked = variables?.enable_thinking;
  return switchable && typeof asked === "boolean" ? asked : byDefault;
}

function withoutThought(message: Message, forgets: boolean): Message {
  const { reasoning_content: thought, ...others } = message;
  if (thought === undefined || forgets) return others;
  return { ...others, content: `${OPEN}\n${thought}\n${CLOSE}\n\n${others.content ?? ""}` };
}
