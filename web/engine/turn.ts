/**
 * Whose turn it is: by priority, the smallest first, then by arrival. Those of a better priority go first, but not for
 * ever: whoever has been passed often enough is as good as they are. As in Python's `engine/turn.py`.
 */

/** Sequences of better priority that begin before one that came earlier; then its turn has come. */
export const PASSES = 8;

/** What of a sequence decides about its turn. */
export interface Waiting {
  readonly params: { readonly priority: number };
  readonly turn: Turn;
}

export interface Turn {
  /** When it came, counted; -1 before. */
  arrival: number;
  /** How often it was passed, as the one that came first of those passed. */
  passes: number;
}

export function newTurn(): Turn {
  return { arrival: -1, passes: 0 };
}

/** Who comes first; those whose turn has come before all others. Who is last gives up its pages where they run out. */
export function byTurn(one: Waiting, other: Waiting): number {
  const come = Number(hasCome(other)) - Number(hasCome(one));
  if (come !== 0) return come;
  const better = hasCome(one) ? 0 : one.params.priority - other.params.priority;
  return better || one.turn.arrival - other.turn.arrival;
}

/**
 * Note that a sequence has been given a place, and so has passed those that came earlier and have a worse priority: the
 * first of them has been passed once more. Only the first, so that not all that wait have their turn together.
 */
export function passedBy(sequence: Waiting, others: readonly Waiting[]): void {
  let first: Waiting | null = null;
  for (const other of others) {
    const passed =
      other.turn.arrival < sequence.turn.arrival &&
      !hasCome(other) &&
      other.params.priority > sequence.params.priority;
    if (passed && other.turn.arrival < (first?.turn.arrival ?? Number.POSITIVE_INFINITY)) {
      first = other;
    }
  }
  if (first) first.turn.passes += 1;
}

function hasCome({ turn }: Waiting): boolean {
  return turn.passes >= PASSES;
}
