/** A hook for React: the answer to a conversation, as it comes. Leaving it, or another conversation, stops it. */

import type { Completion, Engine, Message } from "edgewise";
import { useEffect, useState } from "react";

export interface Answer {
  readonly text: string;
  /** Null until the answer has ended. */
  readonly completion: Completion | null;
  readonly error: unknown;
}

const NOTHING: Answer = { text: "", completion: null, error: null };

/**
 * @param engine null while it is loaded.
 * @param messages what is answered; the same array for as long as it is the same conversation.
 */
export function useAnswer(engine: Engine | null, messages: readonly Message[] | null): Answer {
  const [answer, setAnswer] = useState(NOTHING);
  useEffect(() => {
    if (!engine || !messages) return;
    let left = false;
    const set = (change: (before: Answer) => Answer) => {
      if (!left) setAnswer(change);
    };
    setAnswer(NOTHING);
    const asked = engine.chat(messages, { contextPolicy: "drop" });
    (async () => {
      for await (const piece of asked) set((before) => ({ ...before, text: before.text + piece }));
      const completion = await asked.completion;
      set((before) => ({ ...before, completion }));
    })().catch((error: unknown) => set((before) => ({ ...before, error })));
    return () => {
      left = true;
      asked.stop();
    };
  }, [engine, messages]);
  return answer;
}

/** Shows it: `engine` is what `Engine.load` gave. */
export function Answered(props: { engine: Engine | null; messages: readonly Message[] | null }) {
  const { text, completion, error } = useAnswer(props.engine, props.messages);
  if (error) return <p role="alert">{String(error)}</p>;
  return <p aria-busy={completion === null}>{text}</p>;
}
