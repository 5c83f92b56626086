/** An answer while it comes: what is said, thought and called, and the completion that it makes. */

import type { Delta } from "../calls/deltas.ts";
import { type Format, shownBy } from "../calls/format.ts";
import { Parser } from "../calls/parser.ts";
import type { Tools } from "../calls/source.ts";
import type { CalledTool, Completion } from "../client/types.ts";
import { type ThoughtPiece, ThoughtStream } from "./thinking.ts";

const PLAIN: Pick<Parser, "feed" | "end"> = {
  feed: (text) => [{ kind: "content", text }],
  end: () => [],
};

/** What an answer is told by. */
export interface Told {
  readonly format: Format;
  /** Schemas of the arguments of what may be called, by name; null where nothing is a call. */
  readonly callable: Tools | null;
}

/**
 * Who reads an answer, and the texts that have to be seen in it.
 *
 * @param opened the prompt has begun a thought.
 */
export function answerIn(
  { format, callable }: Told,
  opened: boolean,
): { readonly reader: AnswerReader; readonly marks: readonly string[] } {
  const { thoughts } = format;
  // A format without marks of thoughts tells them by its calls' reader.
  if (callable === null && thoughts.length > 0) {
    const stream = new ThoughtStream(thoughts, opened);
    const feed = (text: string) => stream.push(text).map(deltaOf);
    const reader = new AnswerReader({ feed, end: () => stream.finish().map(deltaOf) });
    return { reader, marks: thoughts.flat() };
  }
  const parser = new Parser(format, { tools: callable, opened });
  return { reader: new AnswerReader(parser), marks: shownBy(format) };
}

function deltaOf({ thought, text }: ThoughtPiece): Delta {
  return { kind: thought ? "reasoning" : "content", text };
}

interface Begun {
  readonly id: string;
  readonly name: string;
  text: string;
}

/** Tells text into deltas, and keeps what they come to. */
export class AnswerReader {
  private readonly parser: Pick<Parser, "feed" | "end">;
  private text = "";
  private reasoning = "";
  private readonly begun = new Map<number, Begun>();
  private readonly called = new Map<number, CalledTool>();

  /** @param parser what tells it; where there is none, all is what was said. */
  constructor(parser: Pick<Parser, "feed" | "end"> = PLAIN) {
    this.parser = parser;
  }

  /** Take the next piece of text; return what is certain now. */
  push(text: string): readonly Delta[] {
    return this.kept(this.parser.feed(text));
  }

  /** Say that nothing follows; return what was held back. */
  end(): readonly Delta[] {
    return this.kept(this.parser.end());
  }

  /** A completion of all the text, told into its parts. */
  completed(completion: Completion): Completion {
    const { text } = this;
    const reasoning = this.reasoning.trim();
    const toolCalls = [...this.called.values()];
    const calls = toolCalls.length > 0 && completion.finishReason === "stop";
    const finishReason = calls ? "tool_calls" : completion.finishReason;
    return { ...completion, text, reasoning, toolCalls, finishReason };
  }

  private kept(deltas: readonly Delta[]): readonly Delta[] {
    for (const delta of deltas) this.keep(delta);
    return deltas;
  }

  private keep(delta: Delta): void {
    switch (delta.kind) {
      case "content":
      case "no call":
        this.text += delta.text;
        break;
      case "reasoning":
        this.reasoning += delta.text;
        break;
      case "call begins":
        this.begun.set(delta.index, { id: delta.id, name: delta.name, text: "" });
        break;
      case "arguments": {
        const call = this.begun.get(delta.index);
        if (call) call.text += delta.text;
        break;
      }
      case "call ends": {
        const call = this.begun.get(delta.index);
        if (call) this.called.set(delta.index, calledOf(call));
        break;
      }
    }
  }
}

/** A parser ends no call whose arguments are no JSON object. */
function calledOf({ id, name, text }: Begun): CalledTool {
  return { id, name, text, arguments: JSON.parse(text) as CalledTool["arguments"] };
}
