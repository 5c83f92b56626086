/** Counts of values in buckets: little memory, exact sums, estimated percentiles. As Python's `engine/histogram.py`. */

/** What a snapshot estimates. */
const PERCENTILES = [50, 90, 99] as const;

export interface HistogramSnapshot {
  readonly count: number;
  readonly sum: number;
  /** Null where nothing was counted. */
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  /** Values at or below each bound, by the bound as text, `+Inf` at the end. */
  readonly buckets: Readonly<Record<string, number>>;
}

/** Bounds 1, 2, 5, 10, 20, … times 10^first, up to 10^last. */
export function steps125(first: number, last: number): number[] {
  // Parsed, so that 0.0002 is the number people write, and not 2 * 10^-4 a bit off.
  const decades = Array.from({ length: last - first }, (_, i) =>
    [1, 2, 5].map((digit) => Number(`${digit}e${first + i}`)),
  );
  return [...decades.flat(), Number(`1e${last}`)];
}

/** How many values lie at or below each of a few bounds, as Prometheus counts them. */
export class Histogram {
  private readonly bounds: readonly number[];
  private readonly counts: number[];
  private sum = 0;
  private low = Number.POSITIVE_INFINITY;
  private high = Number.NEGATIVE_INFINITY;

  /** @param bounds upper ones, rising and finite; above the last lies one more bucket. */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  /** Count a finite value, so many times. */
  observe(value: number, times = 1): void {
    if (times <= 0) return;
    const found = this.bounds.findIndex((bound) => value <= bound);
    const at = found < 0 ? this.bounds.length : found;
    this.counts[at] = (this.counts[at] ?? 0) + times;
    this.sum += value * times;
    this.low = Math.min(this.low, value);
    this.high = Math.max(this.high, value);
  }

  /**
   * Estimate what so many percent of the values do not exceed; null before the first value. Straight lines between the
   * bounds, as Prometheus's `histogram_quantile`, but between the smallest and the largest value seen.
   */
  percentile(percent: number): number | null {
    const rank = (this.count * percent) / 100;
    let below = 0;
    for (const [at, count] of this.counts.entries()) {
      if (count > 0 && below + count >= rank) {
        const low = Math.max(this.bounds[at - 1] ?? Number.NEGATIVE_INFINITY, this.low);
        const high = Math.min(this.bounds[at] ?? Number.POSITIVE_INFINITY, this.high);
        const part = Math.max(rank - below, 0) / count;
        return Math.min(low + (high - low) * part, high);
      }
      below += count;
    }
    return null;
  }

  get count(): number {
    return this.counts.reduce((sum, one) => sum + one, 0);
  }

  snapshot(): HistogramSnapshot {
    const [p50 = null, p90 = null, p99 = null] = PERCENTILES.map((one) => this.percentile(one));
    const names = [...this.bounds.map(String), "+Inf"];
    let below = 0;
    const buckets = this.counts.map((count, at): [string, number] => {
      below += count;
      return [names[at] ?? "", below];
    });
    return {
      count: this.count,
      sum: this.sum,
      p50,
      p90,
      p99,
      buckets: Object.fromEntries(buckets),
    };
  }
}
