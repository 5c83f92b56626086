/** What a chat template does about thoughts, found out by rendering short conversations with it. */

import type { Thinking } from "../client/types.ts";
import type { ChatTemplate } from "./template.ts";

const USER = { role: "user", content: "?" };
/** Nothing that a template writes by itself. */
const THOUGHT = "a thought of an earlier answer";
const ANSWERED = [
  USER,
  { role: "assistant", content: `<think>\n${THOUGHT}\n</think>\n\nanswer` },
  USER,
];

/** What is known of a template's thoughts; of one that refuses to be asked, that it knows nothing of them. */
export function thinkingOf(template: Pick<ChatTemplate, "render">): Thinking {
  const prompt = (messages: typeof ANSWERED, enabled?: boolean): string => {
    try {
      const variables = enabled === undefined ? {} : { enable_thinking: enabled };
      return template.render(messages, { variables });
    } catch {
      return "";
    }
  };
  const [on, off] = [prompt([USER], true), prompt([USER], false)];
  // Asked again, since a template may write the time.
  const switchable = on !== off && on === prompt([USER], true);
  const answered = prompt(ANSWERED);
  return {
    switchable,
    byDefault: !switchable || prompt([USER]) !== off,
    opened: { on: isOpen(on), off: isOpen(off) },
    forgets: answered !== "" && !answered.includes(THOUGHT),
  };
}

function isOpen(prompt: string): boolean {
  return /<think>\s*$/.test(prompt);
}

/** Pairs of marks that a thought stands between. */
export type Marks = readonly (readonly [string, string])[];

/** A piece of an answer, and whether it is thought. */
export interface ThoughtPiece {
  readonly thought: boolean;
  readonly text: string;
}

/** White space before and after marks, and how much of it may stand before a thought. */
const SPACE = " \t\n\r\f\v";
const MAX_SPACE = 256;

/**
 * Tells, while an answer comes, what of it is thought; only one that it begins with is. As in Python's
 * `text/thinking.py`.
 */
export class ThoughtStream {
  private readonly marks: Marks;
  private close: string;
  private thinking: boolean;
  private edge: boolean;
  private undecided: boolean;
  private held = "";

  /**
   * @param marks pairs that a thought may stand between.
   * @param opened the prompt ends with the first of the first pair.
   */
  constructor(marks: Marks, opened = false) {
    this.marks = marks;
    this.close = opened ? (marks[0]?.[1] ?? "") : "";
    this.thinking = opened;
    this.edge = opened;
    this.undecided = !opened;
  }

  /**
   * Take the next piece; return texts. Left out are the marks and the white space after them; what may become one is
   * held back.
   */
  push(piece: string): ThoughtPiece[] {
    let text = this.held + piece;
    this.held = "";
    if (this.undecided) {
      const begun = withoutSpaceBefore(text);
      const plain = text.length - begun.length > MAX_SPACE;
      const mayBegin = ([mark]: readonly [string, string]) =>
        begun.length < mark.length && mark.startsWith(begun);
      if (!plain && this.marks.some(mayBegin)) {
        this.held = text;
        return [];
      }
      this.undecided = false;
      const found = this.marks.find(([mark]) => !plain && begun.startsWith(mark));
      if (found) {
        this.thinking = true;
        this.edge = true;
        this.close = found[1];
        text = begun.slice(found[0].length);
      }
    }
    if (!this.thinking) return this.texts(false, text);
    const end = text.indexOf(this.close);
    const thought = end < 0 ? text : text.slice(0, end);
    const kept = end < 0 ? beginningOf(thought, this.close) : 0;
    this.held = thought.slice(thought.length - kept);
    const found = this.texts(true, thought.slice(0, thought.length - kept));
    if (end < 0) return found;
    this.thinking = false;
    this.edge = true;
    return [...found, ...this.texts(false, text.slice(end + this.close.length))];
  }

  /** Return what was held back, once nothing follows. */
  finish(): ThoughtPiece[] {
    const { held } = this;
    this.held = "";
    return this.texts(this.thinking, held);
  }

  private texts(thought: boolean, piece: string): ThoughtPiece[] {
    let text = piece;
    if (this.edge) {
      text = withoutSpaceBefore(text);
      this.edge = !text;
    }
    return text ? [{ thought, text }] : [];
  }
}

/** How many of the last characters of a text are the beginning of a mark. */
function beginningOf(text: string, mark: string): number {
  for (let n = Math.min(text.length, mark.length - 1); n > 0; n--) {
    if (text.endsWith(mark.slice(0, n))) return n;
  }
  return 0;
}

function withoutSpaceBefore(text: string): string {
  let at = 0;
  while (at < text.length && SPACE.includes(text.charAt(at))) at++;
  return text.slice(at);
}
