/** The answer that a page was writing when it was closed, or was ended by the browser. */

import { shownOf } from "./branches.ts";
import type { Conversation } from "./conversations.ts";
import { isHeld } from "./writing-lock.ts";

/** What was left for longer than this, in milliseconds, does not go on by itself. */
const A_DAY = 24 * 60 * 60 * 1000;

/**
 * The conversation that changed last, where its answer broke off and can go on, and no other page is
 * writing it: its id.
 */
export async function unfinished(
  all: readonly Conversation[],
  now: number,
): Promise<string | null> {
  const said = all.filter(({ messages }) => messages.length > 0);
  if (said.length === 0) return null;
  const last = said.reduce((a, b) => (b.updated > a.updated ? b : a));
  const answer = shownOf(last).at(-1);
  if (!answer?.cut || answer.stats || answer.cut.tried) return null;
  if (now - last.updated > A_DAY || (await isHeld(last.id))) return null;
  return last.id;
}
