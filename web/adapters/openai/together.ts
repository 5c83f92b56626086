/** Several generations, told as they come. */

import type { AnswerDelta, Completion, Generation } from "../../client/types.ts";

export type Event =
  | { readonly index: number; readonly delta: AnswerDelta }
  | { readonly index: number; readonly completion: Completion };

/** What comes of each, whichever comes first. Leaving the loop early stops them all, and so does one's error. */
export async function* together(
  generations: readonly Generation[],
): AsyncGenerator<Event, void, undefined> {
  const coming = new Map<number, Promise<Event>>();
  const left = new Set(generations);
  const next = generations.map((generation, index) => {
    const deltas = generation.deltas[Symbol.asyncIterator]();
    return async (): Promise<Event> => {
      const { value, done } = await deltas.next();
      return done ? { index, completion: await generation.completion } : { index, delta: value };
    };
  });
  const wait = (index: number) => {
    const event = next[index]?.();
    event?.catch(() => {}); // heard of in its turn
    if (event) coming.set(index, event);
  };
  for (const index of generations.keys()) wait(index);
  try {
    while (coming.size > 0) {
      const event = await Promise.race(coming.values());
      coming.delete(event.index);
      const one = generations[event.index];
      if (one && "completion" in event) left.delete(one);
      yield event;
      if ("delta" in event) wait(event.index);
    }
  } finally {
    for (const one of left) {
      one.completion.catch(() => {}); // nobody waits for it
      one.stop();
    }
  }
}
