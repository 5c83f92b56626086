/** Numbers as people read them. */

const UNITS = ["bytes", "KB", "MB", "GB", "TB"] as const;

/** Bytes in the unit that leaves one to three digits before the point. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Tokens per second. */
export function rate(tokensPerSecond: number): string {
  return `${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens/s`;
}

/** Milliseconds as seconds, or as they are where there are few. */
export function duration(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** The speed of something that grows, over its last few seconds. */
export class Speed {
  private readonly window: number;
  private readonly seen: { readonly at: number; readonly value: number }[] = [];

  /** @param window milliseconds looked back. */
  constructor(window = 3000) {
    this.window = window;
  }

  /** Note a value; how much it grows a second, 0 until that can be told. */
  add(value: number, at: number): number {
    this.seen.push({ at, value });
    while (this.seen.length > 2 && at - (this.seen[0]?.at ?? at) > this.window) this.seen.shift();
    const first = this.seen[0];
    if (!first || at <= first.at) return 0;
    return ((value - first.value) / (at - first.at)) * 1000;
  }
}
