/** An answer while it comes: what is said, thought and called, and the completion that it makes. */

import type { Delta } from "../calls/deltas.ts";
import type { Parser } from "../calls/parser.ts";
import type { CalledTool, Completion } from "../client/types.ts";

const PLAIN: Pick<Parser, "feed" | "end"> = {
  feed: (text) => [{ kind: "content", text }],
  end: () => [],
};

/** What a text is read as; null for one that was cut off. */
export type Parse = (text: string) => { readonly value: unknown } | null;

interface Begun {
  readonly id: string;
  readonly name: string;
  text: string;
}

/** Tells text into deltas, and keeps what they come to. */
export class AnswerReader {
  private readonly parser: Pick<Parser, "feed" | "end">;
  private readonly parse: Parse | null;
  private text = "";
  private reasoning = "";
  private readonly begun = new Map<number, Begun>();
  private readonly called = new Map<number, CalledTool>();

  /**
   * @param parser what tells it; where there is none, all is what was said.
   * @param parse reads the text of one that was asked to be something.
   */
  constructor(parser: Pick<Parser, "feed" | "end"> = PLAIN, parse: Parse | null = null) {
    this.parser = parser;
    this.parse = parse;
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
    const told = { ...completion, text, reasoning, toolCalls, finishReason };
    const parsed = this.parse?.(text) ?? null;
    return parsed ? { ...told, parsed: parsed.value } : told;
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
