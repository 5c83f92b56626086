/** What comes in a row, each perhaps missing, with commas between. */

import type { Node } from "../nodes.ts";
import { COMMA, choice, optional, repeat, sequence } from "./anything.ts";
import type { Context } from "./context.ts";

/** What is written, and whether it has to be there. */
export interface Member {
  readonly node: Node;
  readonly required: boolean;
}

/**
 * At least one member, in their order, then up to `room` of some other ones, commas between; null
 * where there is none.
 */
export function inARow(
  context: Context,
  members: readonly Member[],
  other: Node | null,
  room: number | null,
): Node | null {
  let more = other === null ? sequence() : repeat(sequence(COMMA, other), 0, room);
  const at = members.findIndex((member) => member.required);
  const first = members[at];
  if (first) {
    const before = members.slice(0, at).map((member) => optional(sequence(member.node, COMMA)));
    return sequence(...before, first.node, ...members.slice(at + 1).map(following), more);
  }
  const choices: Node[] = [];
  if (other !== null) {
    const fewer = repeat(sequence(COMMA, other), 0, room === null ? null : room - 1);
    choices.push(sequence(other, fewer));
  }
  for (const member of members.toReversed()) {
    choices.unshift(sequence(member.node, more));
    more = context.shared(sequence(following(member), more));
  }
  return choices.length > 0 ? choice(choices) : null;
}

function following(member: Member): Node {
  const node = sequence(COMMA, member.node);
  return member.required ? node : optional(node);
}
