/** How many tokens to draft: as many as have lately been worth it, down to none. As in Python's `speculate/length.py`. */

/** What an older outcome counts for, beside the next one. */
const MEMORY = 0.9;
/** Looks without a draft after a failed attempt; every further failure in a row doubles them. */
const PAUSE = { first: 4, longest: 64 } as const;

/** What a step takes that verifies k tokens and draws one more, in steps that draw one. */
export type Price = (k: number) => number;

export class DraftLength {
  /** Drafted tokens that were looked at, and those of them that were right; faded. */
  private tried = 2;
  private right = 1.5;
  private pause: number = PAUSE.first;
  private left = 0;

  /** Tokens to draft now, 0 for none. Where none pays one is tried now and then, ever more rarely. */
  next(most: number, price: Price): number {
    const best = bestLength(this.right / this.tried, most, price);
    if (best > 0) return best;
    if (this.left > 0) {
      this.left -= 1;
      return 0;
    }
    return Math.min(1, most);
  }

  /** Whether a draft is likely to pay. */
  hopes(most: number, price: Price): boolean {
    return bestLength(this.right / this.tried, most, price) > 0;
  }

  /** Take in how many tokens of a draft were right. */
  observe(proposed: number, accepted: number, most: number, price: Price): void {
    if (proposed === 0) return;
    // Nothing is known about the tokens after the first that was wrong.
    const wrong = accepted < proposed ? 1 : 0;
    this.tried = MEMORY * this.tried + accepted + wrong;
    this.right = MEMORY * this.right + accepted;
    if (this.hopes(most, price)) {
      this.pause = PAUSE.first;
      this.left = 0;
      return;
    }
    // One that was right, too, where no draft pays: it takes time all the same.
    this.left = this.pause;
    this.pause = Math.min(2 * this.pause, PAUSE.longest);
  }
}

/**
 * The k from 0 to `most` with the most tokens for the time, the least of equals. With a the chance that a drafted
 * token is accepted, k of them give (1 - a^(k+1)) / (1 - a) tokens on average (Leviathan, Kalman, Matias, "Fast
 * Inference from Transformers via Speculative Decoding", ICML 2023).
 */
export function bestLength(acceptance: number, most: number, price: Price): number {
  let best = 0;
  let bestSpeed = 1;
  let tokens = 1;
  for (let k = 1; k <= most; k++) {
    tokens += acceptance ** k;
    const speed = tokens / price(k);
    if (speed > bestSpeed) {
      best = k;
      bestSpeed = speed;
    }
  }
  return best;
}
