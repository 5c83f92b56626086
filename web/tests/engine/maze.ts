/** A constraint made of hashes: rooms, each with tokens that lead on from it, most of them only to its twin. */

import type { Constraint } from "../../engine/constraint.ts";
import { EOS, mix, VOCAB } from "./expected.ts";

const ROOMS = 12;
const MOST_FORCED = 5;
const ORDINARY = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => !EOS.includes(id));

type Kind = "forced" | "free" | "open" | "closed";
const KINDS: readonly Kind[] = ["forced", "free", "open", "closed", "free", "closed"];

/**
 * From a room one token leads on, or any, or some, from its twin the same: another state, and the same mask. Who leaves
 * it comes to another room. Where any token leads on, an answer may end, and where some do from rooms that are open.
 */
export class Maze implements Constraint {
  readonly start = 0;
  private readonly seed: number;
  private readonly last: number;
  private readonly some = new Map<number, readonly number[]>();

  /** @param last the room where an answer must end; none for -1. */
  constructor(seed: number, last = -1) {
    this.seed = seed;
    this.last = last;
  }

  mask(state: number): Uint32Array {
    const mask = new Uint32Array(Math.ceil(VOCAB / 32));
    for (const token of this.tokens(roomOf(state))) {
      mask[token >>> 5] = (mask[token >>> 5] ?? 0) | (1 << (token & 31));
    }
    return mask;
  }

  advance(state: number, token: number): number | null {
    const room = roomOf(state);
    if (!this.tokens(room).includes(token)) return null;
    const chance = mix(mix(this.seed, room), token + 2);
    const stays = this.kind(room) !== "forced" && chance % 6 > 0;
    return stays ? (state + ROOMS) % (2 * ROOMS) : (chance >>> 8) % ROOMS;
  }

  mayEnd(state: number): boolean {
    return this.mustEnd(state) || ["free", "open"].includes(this.kind(roomOf(state)));
  }

  mustEnd(state: number): boolean {
    return roomOf(state) === this.last;
  }

  free(state: number): boolean {
    return !this.mustEnd(state) && this.kind(roomOf(state)) === "free";
  }

  forcedTokens(state: number): readonly number[] {
    const found: number[] = [];
    let at: number | null = state;
    while (at !== null && found.length < MOST_FORCED && this.forces(at)) {
      const [only = 0] = this.tokens(roomOf(at));
      found.push(only);
      at = this.advance(at, only);
    }
    return found;
  }

  private forces(state: number): boolean {
    return !this.mustEnd(state) && this.kind(roomOf(state)) === "forced";
  }

  private kind(room: number): Kind {
    return KINDS[mix(mix(this.seed, room), 1) % KINDS.length] ?? "free";
  }

  private tokens(room: number): readonly number[] {
    const known = this.some.get(room);
    if (known) return known;
    const kind = this.kind(room);
    const order = (token: number) => mix(mix(this.seed, room + 100), token);
    const shuffled = ORDINARY.toSorted((a, b) => order(a) - order(b));
    const all = Array.from({ length: VOCAB }, (_, id) => id);
    const found = kind === "free" ? all : shuffled.slice(0, kind === "forced" ? 1 : 6);
    this.some.set(room, room === this.last ? [] : found);
    return this.tokens(room);
  }
}

function roomOf(state: number): number {
  return state % ROOMS;
}
