/** How much of the context messages take: the engine counts what it reads. */

import type { AnyEngine } from "../../client/remote.ts";
import type { ChatOptions, Message } from "../../client/types.ts";
import { EdgewiseError } from "../../errors.ts";

/**
 * Have the engine read a conversation, whose pages it then keeps.
 *
 * @returns its tokens, or null where the context does not hold them.
 * @throws what the engine throws, and the signal's reason.
 */
export async function read(
  engine: AnyEngine,
  messages: readonly Message[],
  tools: Pick<ChatOptions, "tools">,
  signal: AbortSignal,
): Promise<number | null> {
  try {
    const { completion } = engine.chat(messages, { ...tools, maxTokens: 0, signal });
    const { usage } = await completion;
    signal.throwIfAborted();
    return usage.promptTokens;
  } catch (error) {
    if (!tooLong(error)) throw error;
    return null;
  }
}

export function tooLong(error: unknown): boolean {
  return error instanceof EdgewiseError && error.code === "input.context";
}

export function charactersOf(messages: readonly Message[]): number {
  return messages.reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
}

/** Of messages that the context does not hold: what it would be if all of it were as its beginning. */
export async function estimated(
  engine: AnyEngine,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<number> {
  const { context } = engine.info;
  const text = messages.map(({ content }) => content ?? "").join("");
  const beginning = text.slice(0, Math.max(1, Math.min(Math.floor(context / 4), 256)));
  const tokens = await read(engine, [{ role: "user", content: beginning }], {}, signal);
  const scale = text.length / Math.max(beginning.length, 1);
  return Math.max(context + 1, Math.ceil((tokens ?? context) * scale));
}
