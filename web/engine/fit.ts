/** A line through measured times: what each of them has in it, and what a unit of size adds. */

/** Measurements that count, the most recent ones. */
const KEPT = 24;
/** Fewer tell nothing about a latency. */
const FEWEST = 4;
/** One measurement in so many may be without the latency that is sure. */
const EXCEPT = 8;
/** Sizes tell a latency from a cost where one is so many times the other, or more. */
const APART = 2;

interface Sample {
  readonly size: number;
  readonly ms: number;
}

/**
 * Milliseconds as `latency + size * cost`, whatever a few odd measurements say.
 *
 * The cost is the median of the slopes between all pairs of measurements (Theil 1950, Sen, "Estimates
 * of the regression coefficient based on Kendall's tau", 1968), weighted by how far apart their sizes
 * are: times that come in steps of a timer say little between sizes that are close. The latency
 * is the median of what is left.
 */
export class Line {
  /** Milliseconds in all measurements, whatever their size; 0 until it is `told`. */
  latency = 0;
  /** Of those, milliseconds in nearly all of them: a busy machine delays some, a timer all. */
  sure = 0;
  /** Milliseconds that a unit of size adds; 0 before the first measurement. */
  cost = 0;
  /** Milliseconds of a unit at most: the least that one took with its share of the latency. */
  most = 0;
  /** Whether sizes differed enough to tell latency and cost apart. */
  told = false;
  private samples: Sample[] = [];

  /** How many measurements count now. */
  get count(): number {
    return this.samples.length;
  }

  /** @param size above 0. */
  add(size: number, ms: number): void {
    this.samples = [...this.samples, { size, ms }].slice(-KEPT);
    this.fit();
  }

  /** Begin anew with the last measurement: what was found out about the latency no longer holds. */
  forget(): void {
    this.samples = this.samples.slice(-1);
    this.told = false;
    this.fit();
  }

  private fit(): void {
    const { samples } = this;
    if (samples.length === 0) return;
    this.most = Math.min(...samples.map((one) => one.ms / one.size));
    const slope = samples.length < FEWEST ? null : slopeOf(samples);
    if (slope !== null) {
      this.told = true;
      const left = samples.map((one) => one.ms - slope * one.size);
      this.latency = Math.max(0, median(left));
      this.sure = Math.max(0, low(left));
      this.cost = this.latency > 0 ? slope : this.unit();
    } else if (this.told) {
      // One size over and over: what was found out about the latency stays.
      const all = samples.map((one) => one.ms);
      this.latency = Math.min(this.latency, median(all));
      this.sure = Math.min(this.sure, low(all));
      this.cost = this.unit();
    } else {
      this.latency = 0;
      this.sure = 0;
      this.cost = this.most;
    }
  }

  /** What a unit took beside the latency. */
  private unit(): number {
    return Math.max(0, median(this.samples.map((one) => (one.ms - this.latency) / one.size)));
  }
}

/** Null where no two sizes are far enough apart. */
function slopeOf(samples: readonly Sample[]): number | null {
  const slopes = samples.flatMap((a) =>
    samples
      .filter((b) => b.size >= APART * a.size)
      .map((b) => ({ slope: (b.ms - a.ms) / (b.size - a.size), weight: b.size - a.size })),
  );
  slopes.sort((a, b) => a.slope - b.slope);
  let left = slopes.reduce((sum, { weight }) => sum + weight, 0) / 2;
  for (const { slope, weight } of slopes) {
    left -= weight;
    if (left <= 0) return Math.max(0, slope);
  }
  return null;
}

/** What all are above but one in `EXCEPT`. */
function low(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / EXCEPT)] ?? 0;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
