/**
 * As many turns of a conversation as fit the context, by the rules of the Python SDK's `window.py`.
 *
 * A turn is a user's message and all up to the next one. What comes between the system prompt and
 * the first user's message, a greeting say, is a turn too. The last turn always stays.
 */

import type { Message } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";

/** The prompt that is read, and how many of the oldest turns it lacks. */
export interface Fitted {
  readonly ids: readonly number[];
  readonly droppedTurns: number;
}

/** The prompt of messages; null where its text alone is too long for the context. */
type Encode = (messages: readonly Message[]) => readonly number[] | null;

const SYSTEM: readonly string[] = ["system", "developer"];
/** The part of the context that an answer may expect to be left for it. */
const ANSWER = 1 / 4;
/** The part of the context that a prompt is cut down to where it has to be. */
const CUT = 1 / 2;

/**
 * The prompt of a conversation without as many of its oldest turns as have to go.
 *
 * Where some have to, room is made for the next questions at once: a prompt that begins elsewhere
 * each time would be read from its beginning each time.
 *
 * @param encode the prompt of messages as token ids; called 2 + log2(turns) times at most.
 * @param answer tokens that the answer may have.
 * @throws EdgewiseError `input.context` where system prompt and last turn alone do not fit, and
 *   what `encode` throws.
 */
export function fitting(
  messages: readonly Message[],
  encode: Encode,
  context: number,
  answer: number,
): Fitted {
  const wanted = context - Math.max(1, Math.min(answer, Math.floor(context * ANSWER)));
  const whole = encode(messages);
  if (whole && whole.length <= wanted) return { ids: whole, droppedTurns: 0 };
  const begins = turns(messages);
  const first = begins[0] ?? messages.length;
  const without = (turn: number): readonly number[] | null =>
    turn === 0
      ? whole
      : encode([...messages.slice(0, first), ...messages.slice(begins[turn] ?? first)]);
  const last = Math.max(begins.length - 1, 0);
  const least = without(last);
  const most = [Math.floor(context * CUT), wanted, context - 1].find((n) => lengthOf(least) <= n);
  if (least === null || most === undefined) {
    const tokens = least ? `${least.length} tokens` : "too many characters";
    throw new EdgewiseError(
      "input.context",
      `The system prompt and the last turn alone have ${tokens}; the context holds ` +
        `${context}, of which 1 must be left for the answer.`,
      "Shorten them, or use a larger context.",
    );
  }
  if (whole && whole.length <= most) return { ids: whole, droppedTurns: 0 };
  // Without `long` of its turns it is too long, without `enough` it fits.
  let [long, enough, ids] = [0, last, least];
  while (enough - long > 1) {
    const middle = (long + enough) >> 1;
    const tried = without(middle);
    if (tried && tried.length <= most) [enough, ids] = [middle, tried];
    else long = middle;
  }
  return { ids, droppedTurns: enough };
}

function lengthOf(ids: readonly number[] | null): number {
  return ids?.length ?? Number.POSITIVE_INFINITY;
}

/** Where each turn begins, in order. */
function turns(messages: readonly Message[]): readonly number[] {
  const first = messages.findIndex(({ role }) => !SYSTEM.includes(role));
  if (first < 0) return [];
  const users = messages.flatMap(({ role }, i) => (i >= first && role === "user" ? [i] : []));
  return users[0] === first ? users : [first, ...users];
}
