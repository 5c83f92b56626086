/** The conversations of this page and the answer that is being written. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Engine } from "../client/index.ts";
import type { Generation } from "../client/types.ts";
import {
  type AnswerStats,
  answer,
  ask,
  type ChatMessage,
  type Conversation,
  newConversation,
  prompt,
  truncated,
} from "./conversations.ts";
import { type Database, openDatabase } from "./database.ts";
import { type Failure, failureOf } from "./model.ts";

/** An answer may be this long where nobody says otherwise. */
const MAX_TOKENS = 1024;

/** The answer being written: which message of which conversation. */
interface Writing {
  readonly conversation: string;
  readonly message: string;
  readonly generation: Generation;
}

export interface Chat {
  readonly conversations: readonly Conversation[];
  readonly current: Conversation;
  /** Id of the message that grows just now. */
  readonly writing: string | null;
  readonly failure: Failure | null;
  /** Text of the answer that ended last, for screen readers. */
  readonly finished: string;
  begin(): void;
  pick(id: string): void;
  change(id: string, changes: Partial<Conversation>): void;
  remove(id: string): void;
  send(engine: Engine, text: string): void;
  /** Send a question again with another text; what followed it is gone. */
  edit(engine: Engine, id: string, text: string): void;
  regenerate(engine: Engine, id: string): void;
  stop(): void;
  dismiss(): void;
}

export function useChat(): Chat {
  const [conversations, setConversations] = useState<readonly Conversation[]>([]);
  const [current, setCurrent] = useState<Conversation>(() => newConversation());
  const [writing, setWriting] = useState<Writing | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [finished, setFinished] = useState("");
  const database = useRef<Database | null>(null);

  useEffect(() => {
    void openDatabase().then(async (opened) => {
      database.current = opened;
      const kept = await opened.all();
      setConversations((made) => [...made, ...kept.filter(({ id }) => !has(made, id))]);
    });
  }, []);

  /** Put a conversation's new state everywhere it is seen, and keep it if there is anything in it. */
  const update = useCallback((changed: Conversation, keep = true) => {
    setCurrent((shown) => (shown.id === changed.id ? changed : shown));
    if (changed.messages.length === 0) return;
    setConversations((all) => [changed, ...all.filter(({ id }) => id !== changed.id)]);
    if (keep) void database.current?.save(changed);
  }, []);

  const write = useCallback(
    async (engine: Engine, asked: Conversation) => {
      const { settings } = asked;
      const id = crypto.randomUUID();
      const generation = engine.chat(prompt(asked), { maxTokens: MAX_TOKENS, ...settings });
      setFailure(null);
      setWriting({ conversation: asked.id, message: id, generation });
      let message: ChatMessage = { id, role: "assistant", content: "" };
      let shown = answer(asked, message);
      update(shown);
      const show = throttled(() => update(shown, false));
      try {
        for await (const text of generation) {
          message = { ...message, content: message.content + text };
          shown = answer(shown, message);
          show();
        }
        const { usage, timings, finishReason } = await generation.completion;
        const stats: AnswerStats = {
          ttftMs: timings.ttftMs,
          tokensPerSecond: timings.decodeTokensPerSecond,
          tokens: usage.completionTokens,
          promptTokens: usage.promptTokens,
          cachedTokens: usage.cachedTokens,
          finish: finishReason,
        };
        message = { ...message, stats };
        setFinished(message.content);
      } catch (error) {
        setFailure(failureOf(error));
      }
      show.cancel();
      update(message.content === "" && !message.stats ? asked : answer(shown, message));
      setWriting((now) => (now?.message === id ? null : now));
    },
    [update],
  );

  return {
    conversations,
    current,
    writing: writing?.conversation === current.id ? writing.message : null,
    failure,
    finished,
    begin: () => setCurrent(newConversation()),
    pick: (id) => setCurrent(conversations.find((one) => one.id === id) ?? current),
    change: (id, changes) => {
      const found = id === current.id ? current : conversations.find((one) => one.id === id);
      if (found) update({ ...found, ...changes });
    },
    remove: (id) => {
      if (writing?.conversation === id) writing.generation.stop();
      setConversations((all) => all.filter((one) => one.id !== id));
      if (current.id === id) setCurrent(newConversation());
      void database.current?.remove(id);
    },
    send: (engine, text) => void write(engine, ask(current, text)),
    edit: (engine, id, text) => void write(engine, ask(truncated(current, id), text)),
    regenerate: (engine, id) => void write(engine, truncated(current, id)),
    stop: () => writing?.generation.stop(),
    dismiss: () => setFailure(null),
  };
}

function has(conversations: readonly Conversation[], id: string): boolean {
  return conversations.some((one) => one.id === id);
}

/** `act` at most once a frame: more often nobody could see it. */
function throttled(act: () => void): (() => void) & { cancel(): void } {
  let frame = 0;
  const request = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      act();
    });
  };
  return Object.assign(request, {
    cancel: () => {
      cancelAnimationFrame(frame);
      frame = 0;
    },
  });
}
