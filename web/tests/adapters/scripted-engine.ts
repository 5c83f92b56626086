/** An engine whose answers are written down beforehand, for what is asked one after the other. */

import { Pieces } from "../../client/generation.ts";
import type { AnyEngine } from "../../client/remote.ts";
import type { CalledTool, ChatOptions, Completion, Message } from "../../client/types.ts";
import { EdgewiseError } from "../../errors.ts";

export const CONTEXT = 100;

/** What an engine says: a text, calls, an error, or a text that waits until it is stopped. */
export type Said =
  | string
  | { readonly calls: readonly CalledTool[] }
  | { readonly waits: string }
  | { readonly cut: string }
  | Error;

/** An engine with a token a character, which says these one after the other, and then how much it was told. */
export function engineSaying(...says: Said[]) {
  const asked: { messages: readonly Message[]; options: ChatOptions }[] = [];
  const engine: AnyEngine = {
    info: { name: "m", family: "", quant: "", context: CONTEXT, tokenizer: "", thinking: null },
    chat(messages, options = {}) {
      const prompt = messages.reduce((sum, { content }) => sum + (content ?? "").length, 0);
      const reading = options.maxTokens === 0;
      return new Pieces((onDeltas) => {
        if (prompt + (reading ? 0 : 1) > CONTEXT) {
          const error = new EdgewiseError("input.context", "too long");
          return { completion: Promise.reject(error), stop: () => {} };
        }
        if (reading) return { completion: Promise.resolve(completed("", prompt)), stop: () => {} };
        asked.push({ messages, options });
        const said = says.shift() ?? String(prompt);
        if (said instanceof Error) return { completion: Promise.reject(said), stop: () => {} };
        if (typeof said === "object" && "calls" in said) {
          const { calls } = said;
          const completion = { ...completed("", prompt), toolCalls: calls };
          return { completion: Promise.resolve(completion), stop: () => {} };
        }
        const text = typeof said === "string" ? said : "waits" in said ? said.waits : said.cut;
        const half = text.length >> 1;
        for (const piece of [text.slice(0, half), text.slice(half)]) {
          onDeltas([{ kind: "content", text: piece }], []);
        }
        const finishReason = typeof said === "object" && "cut" in said ? "length" : "stop";
        const whole = { ...completed(text, prompt), finishReason } as const;
        if (typeof said === "string" || "cut" in said) {
          return { completion: Promise.resolve(whole), stop: () => {} };
        }
        let stop = () => {};
        const completion = new Promise<Completion>((resolve) => {
          stop = () => resolve({ ...whole, finishReason: "cancelled" });
        });
        options.signal?.addEventListener("abort", stop);
        return { completion, stop };
      });
    },
    generate() {
      throw new Error("nobody generates");
    },
    close: () => Promise.resolve(),
  };
  return { engine, asked };
}

function completed(text: string, promptTokens: number): Completion {
  return {
    text,
    reasoning: "",
    toolCalls: [],
    written: text,
    tokenIds: [],
    finishReason: "stop",
    usage: {
      promptTokens,
      cachedTokens: 0,
      completionTokens: text.length,
      totalTokens: promptTokens + text.length,
    },
    timings: {
      ttftMs: 1,
      prefillMs: 1,
      decodeMs: 1,
      prefillTokensPerSecond: 1,
      decodeTokensPerSecond: 1,
      decodeTokens: 1,
    },
    seed: "7",
    contextFull: false,
    droppedTurns: 0,
  };
}
