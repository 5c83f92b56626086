/** Which token the rules of sampling draw: top-k, top-p, min-p, then a random point of what is left. */

export interface Asked {
  readonly temperature: number;
  /** 0 keeps all. */
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** Low word, high word. */
  readonly seed: readonly [number, number];
  readonly sequence: number;
}

/** What float32 weights may be off, of all that is left. */
const CLOSE = 1e-5;

/**
 * The tokens that may be drawn at a position: one, or both neighbours where the random point is too
 * close to their border for float32.
 */
export function drawnFrom(logits: readonly number[], asked: Asked, position: number): Set<number> {
  const { temperature, topK, topP, minP, seed, sequence } = asked;
  const top = logits.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  const weights = logits.map((value) => Math.exp((value - top) / temperature));
  const weight = (token: number) => weights[token] ?? 0;
  const sum = (tokens: readonly number[]) => tokens.reduce((all, token) => all + weight(token), 0);
  const order = logits
    .map((_, token) => token)
    .sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0) || a - b)
    .slice(0, topK > 0 ? topK : logits.length);
  const total = sum(order);
  const found = new Set<number>();
  for (const slack of [-CLOSE, CLOSE]) {
    const target = topP < 1 ? (topP + slack) * total : total * 2;
    let before = 0;
    const kept = order.filter((token) => {
      const wanted = before < target;
      before += weight(token);
      return wanted && weight(token) >= minP;
    });
    kept.sort((a, b) => a - b);
    const left = sum(kept);
    const point = (philox([position, sequence, 0, 0], seed) / 2 ** 32) * left;
    let start = 0;
    for (const token of kept) {
      const end = start + weight(token);
      if (point > start - CLOSE * left && point < end + CLOSE * left) found.add(token);
      start = end;
    }
  }
  return found;
}

type Words = readonly [number, number, number, number];

/** The first word of Philox4x32-10 (Salmon et al., "Parallel random numbers", SC 2011). */
export function philox(counter: Words, key: readonly [number, number]): number {
  let [a, b, c, d] = counter.map((word) => BigInt(word >>> 0)) as [bigint, bigint, bigint, bigint];
  let [first, second] = key.map((word) => BigInt(word >>> 0)) as [bigint, bigint];
  const word = (value: bigint) => BigInt.asUintN(32, value);
  for (let round = 0; round < 10; round++) {
    const [left, right] = [0xd2511f53n * a, 0xcd9e8d57n * c];
    [a, b, c, d] = [
      (right >> 32n) ^ b ^ first,
      word(right),
      (left >> 32n) ^ d ^ second,
      word(left),
    ];
    first = word(first + 0x9e3779b9n);
    second = word(second + 0xbb67ae85n);
  }
  return Number(a);
}
