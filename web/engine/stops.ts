/** Stop strings found across pieces of text, without ever letting a part of one out. */

interface Match {
  readonly start: number;
  readonly end: number;
  readonly stop: string;
}

/**
 * Passes text on until one of some strings has appeared in it.
 *
 * The string that is complete first ends the text, the longest where several are; the text ends
 * before it. What could still become one is held back. How the text was cut into pieces makes no
 * difference.
 */
export class StopStrings {
  /** The string that ended the text. */
  found: string | null = null;
  private readonly stops: readonly string[];
  private held = "";

  constructor(stops: readonly string[]) {
    this.stops = stops;
  }

  /** Take the next piece; return the text that is certain not to be part of a stop string. */
  push(piece: string): string {
    if (this.found !== null) return "";
    const text = this.held + piece;
    const match = this.stops.map((stop) => matchOf(text, stop)).reduce(earlier, null);
    if (match !== null) {
      this.found = match.stop;
      this.held = "";
      return text.slice(0, match.start);
    }
    const keep = this.stops.reduce((most, stop) => Math.max(most, overlap(text, stop)), 0);
    this.held = text.slice(text.length - keep);
    return text.slice(0, text.length - keep);
  }

  /** Return what was held back, once no text follows. */
  finish(): string {
    const held = this.held;
    this.held = "";
    return held;
  }
}

function matchOf(text: string, stop: string): Match | null {
  const start = text.indexOf(stop);
  return start < 0 ? null : { start, end: start + stop.length, stop };
}

function earlier(a: Match | null, b: Match | null): Match | null {
  if (a === null || b === null) return a ?? b;
  return b.end < a.end || (b.end === a.end && b.start < a.start) ? b : a;
}

/** Length of the longest end of `text` that begins, but is not, `stop`. */
function overlap(text: string, stop: string): number {
  for (let n = Math.min(stop.length - 1, text.length); n > 0; n--) {
    if (text.endsWith(stop.slice(0, n))) return n;
  }
  return 0;
}
