/** What is answered in the words of Vercel's AI SDK: whole, and in parts. */

import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import type { Completion, FinishReason, Generation } from "../../client/types.ts";

const FINISHED: Readonly<Record<FinishReason, LanguageModelV4FinishReason["unified"]>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
  cancelled: "other",
};

/** Of an answer that failed: nobody counted. */
const UNCOUNTED: LanguageModelV4Usage = {
  inputTokens: {
    total: undefined,
    noCache: undefined,
    cacheRead: undefined,
    cacheWrite: undefined,
  },
  outputTokens: { total: undefined, text: undefined, reasoning: undefined },
};

/**
 * The whole answer, once it is there.
 *
 * @throws the signal's reason where that ended it, as the SDK expects.
 */
export async function whole(
  generation: Generation,
  warnings: SharedV4Warning[],
  signal: AbortSignal | undefined,
): Promise<LanguageModelV4GenerateResult> {
  const completion = await generation.completion;
  if (completion.finishReason === "cancelled") signal?.throwIfAborted();
  const { text, reasoning, toolCalls } = completion;
  const content: LanguageModelV4Content[] = [];
  if (reasoning !== "") content.push({ type: "reasoning", text: reasoning });
  if (text !== "") content.push({ type: "text", text });
  for (const { id, name, text: input } of toolCalls) {
    content.push({ type: "tool-call", toolCallId: id, toolName: name, input });
  }
  return { content, finishReason: reasonOf(completion), usage: usageOf(completion), warnings };
}

/** The answer in parts; whoever cancels the stream stops it. */
export function streamed(
  generation: Generation,
  warnings: SharedV4Warning[],
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  const parts = partsOf(generation, warnings, signal);
  return new ReadableStream<LanguageModelV4StreamPart>({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => generation.stop(),
  });
}

async function* partsOf(
  generation: Generation,
  warnings: SharedV4Warning[],
  signal: AbortSignal | undefined,
): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  yield { type: "stream-start", warnings };
  try {
    yield* pieces(generation);
    const completion = await generation.completion;
    if (completion.finishReason === "cancelled") signal?.throwIfAborted();
    yield { type: "finish", usage: usageOf(completion), finishReason: reasonOf(completion) };
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    yield { type: "error", error };
    const finishReason = { unified: "error", raw: undefined } as const;
    yield { type: "finish", usage: UNCOUNTED, finishReason };
  }
}

interface Open {
  readonly kind: "text" | "reasoning";
  readonly id: string;
}

/** A call is told as it comes; what turns out to be none is text then, and its beginning stays told. */
async function* pieces(
  generation: Generation,
): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
  const calls = new Map<number, { id: string; name: string; input: string }>();
  let blocks = 0;
  let open: Open | null = null;
  for await (const delta of generation.deltas) {
    const kind = kindOf(delta.kind);
    if (open && open.kind !== kind) {
      yield { type: `${open.kind}-end`, id: open.id };
      open = null;
    }
    switch (delta.kind) {
      case "call begins": {
        const { index, id, name } = delta;
        calls.set(index, { id, name, input: "" });
        yield { type: "tool-input-start", id, toolName: name };
        break;
      }
      case "arguments": {
        const call = calls.get(delta.index);
        if (!call) break;
        call.input += delta.text;
        yield { type: "tool-input-delta", id: call.id, delta: delta.text };
        break;
      }
      case "call ends": {
        const call = calls.get(delta.index);
        if (!call) break;
        const { id, name, input } = call;
        yield { type: "tool-input-end", id };
        yield { type: "tool-call", toolCallId: id, toolName: name, input };
        break;
      }
      default: {
        const begun = delta.kind === "no call" ? calls.get(delta.index ?? -1) : undefined;
        if (begun) yield { type: "tool-input-end", id: begun.id };
        if (delta.text === "") break;
        if (!open) {
          open = { kind: kind ?? "text", id: String(blocks++) };
          yield { type: `${open.kind}-start`, id: open.id };
        }
        yield { type: `${open.kind}-delta`, id: open.id, delta: delta.text };
      }
    }
  }
  if (open) yield { type: `${open.kind}-end`, id: open.id };
}

function kindOf(kind: string): Open["kind"] | null {
  if (kind === "reasoning") return "reasoning";
  return kind === "content" || kind === "no call" ? "text" : null;
}

function reasonOf({ finishReason }: Completion): LanguageModelV4FinishReason {
  return { unified: FINISHED[finishReason], raw: finishReason };
}

/** Of a host's answer thoughts are not counted apart: where there are some, neither is known. */
function usageOf(completion: Completion): LanguageModelV4Usage {
  const { promptTokens, cachedTokens, completionTokens } = completion.usage;
  const thought = completion.thoughtTokens ?? (completion.reasoning === "" ? 0 : undefined);
  return {
    inputTokens: {
      total: promptTokens,
      noCache: promptTokens - cachedTokens,
      cacheRead: cachedTokens,
      cacheWrite: undefined,
    },
    outputTokens: {
      total: completionTokens,
      text: thought === undefined ? undefined : completionTokens - thought,
      reasoning: thought,
    },
  };
}
