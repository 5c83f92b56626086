/**
 * Drafts from the text itself: what followed the last time it read like this. As in Python's
 * `engine/speculate/lookup.py` (Apoorv Saxena, "Prompt Lookup Decoding", 2023).
 */

/** Tokens of the longest and of the shortest end of a text that is looked for. */
const LONGEST = 4;
const SHORTEST = 1;
/** Only what was followed by one of so many last tokens is remembered: some megabytes at most. */
const WINDOW = 8192;

/** The ends of one text that grows, and what followed them when they last occurred. */
export class Lookup {
  /** Where the token is that followed, by the tokens before it. */
  private readonly followed = new Map<string, number>();
  private seen = 0;

  /**
   * At most k tokens that may follow: a copy of what followed the longest end that occurred before, none where none
   * did. A copy that reaches its own beginning goes round (as in LZ77).
   *
   * @param tokens all of the text; it has only grown since the last time.
   */
  propose(tokens: readonly number[], k: number): readonly number[] {
    this.update(tokens);
    const at = this.find(tokens);
    if (at === null) return [];
    const copied = tokens.slice(at, at + k);
    return Array.from({ length: k }, (_, i) => copied[i % copied.length] ?? 0);
  }

  private update(tokens: readonly number[]): void {
    const end = tokens.length;
    if (end - this.seen > WINDOW) {
      this.followed.clear();
      this.seen = end - WINDOW;
    }
    for (let at = this.seen; at < end; at++) {
      for (const gram of endsOf(tokens, at)) this.followed.set(gram, at);
      const old = at - WINDOW;
      if (old < 0) continue;
      for (const gram of endsOf(tokens, old)) {
        if (this.followed.get(gram) === old) this.followed.delete(gram);
      }
    }
    this.seen = end;
  }

  private find(tokens: readonly number[]): number | null {
    for (const gram of endsOf(tokens, tokens.length).toReversed()) {
      const found = this.followed.get(gram);
      if (found !== undefined) return found;
    }
    return null;
  }
}

/** What the tokens before one end with, the shortest end first. */
function endsOf(tokens: readonly number[], before: number): string[] {
  const ends: string[] = [];
  for (let length = SHORTEST; length <= Math.min(LONGEST, before); length++) {
    ends.push(tokens.slice(before - length, before).join());
  }
  return ends;
}
