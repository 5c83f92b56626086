import type { Answers } from "../../chat/going-on.ts";
import { Pieces } from "../../client/generation.ts";
import type {
  AnswerDelta,
  ChatOptions,
  Completion,
  FinishReason,
  Message,
} from "../../client/types.ts";

/** One answer that a test gives piece by piece. */
export interface Speech {
  readonly messages: readonly Message[];
  readonly options: ChatOptions;
  say(text: string, tokens?: readonly number[]): void;
  think(text: string): void;
  tell(...deltas: readonly AnswerDelta[]): void;
  end(finishReason?: FinishReason, changes?: Partial<Completion>): void;
  fail(error: Error): void;
}

export interface Speaker {
  readonly answers: Answers;
  readonly speeches: readonly Speech[];
}

/** Answers questions with what a test says, when it says it. */
export function speaker(info: Partial<Answers["info"]> = {}): Speaker {
  const speeches: Speech[] = [];
  const answers: Answers = {
    info: { context: 1024, thinking: null, tokenizer: "words", ...info },
    chat: (messages, options) =>
      new Pieces((onDeltas) => {
        let end: Speech["end"] = () => {};
        let fail: (error: Error) => void = () => {};
        const ended = new Promise<Completion>((resolve, reject) => {
          end = (reason = "stop", changes = {}) => resolve({ ...completion(reason), ...changes });
          fail = reject;
        });
        speeches.push({
          messages,
          options,
          say: (text, tokens = []) => onDeltas([{ kind: "content", text }], tokens),
          think: (text) => onDeltas([{ kind: "reasoning", text }], []),
          tell: (...deltas) => onDeltas(deltas, []),
          end: (...how) => end(...how),
          fail,
        });
        return { completion: ended, stop: () => end("cancelled") };
      }),
  };
  return { answers, speeches };
}

function completion(finishReason: FinishReason): Completion {
  return {
    text: "",
    reasoning: "",
    toolCalls: [],
    written: "",
    tokenIds: [],
    finishReason,
    usage: { promptTokens: 12, cachedTokens: 4, completionTokens: 3, totalTokens: 15 },
    timings: {
      ttftMs: 80,
      prefillMs: 70,
      decodeMs: 100,
      prefillTokensPerSecond: 100,
      decodeTokensPerSecond: 20,
      decodeTokens: 2,
    },
    seed: "7",
    contextFull: false,
    droppedTurns: 0,
  };
}
