/** Tokens as large vocabularies have them: the same in tests/runtime/grammar/large_vocabulary.py. */

import { bytesOf } from "../../grammar/utf8.ts";
import { Random } from "../engine/random.ts";

const SIZE = 150_000;
/** The last ids, which no text is made of. */
const CONTROLS = 24;
const SEED = 1;
const LETTERS = "etaoinshrdlucmfwypvbgkjqxz";
const SIGNS = "\"{}[],:.\\/ ()-_=<>+*;'\n\t0";
const RUNS = ' \n\t=-*#]})"a0';
const BLOCKS = [
  [0xe0, 0xff],
  [0x400, 0x45f],
  [0x4e00, 0x9fa5],
  [0xac00, 0xd7a3],
  [0x1f600, 0x1f64f],
] as const;

/** The bytes of each token; null for the last ones. Some tokens are there twice. */
export function largeTokens(): (Uint8Array | null)[] {
  const tokens: (Uint8Array | null)[] = Array.from({ length: 256 }, (_, byte) =>
    Uint8Array.of(byte),
  );
  for (const sign of RUNS) {
    for (let count = 2; count < 97; count++) tokens.push(bytesOf(sign.repeat(count)));
  }
  const rng = new Random(SEED);
  while (tokens.length < SIZE - CONTROLS) tokens.push(piece(rng));
  return [...tokens, ...new Array<null>(CONTROLS).fill(null)];
}

function piece(rng: Random): Uint8Array {
  const below = (count: number) => rng.whole(0, count - 1);
  const many = (count: number, one: () => string) => Array.from({ length: count }, one).join("");
  const kind = below(10);
  if (kind < 6) {
    const word = many(2 + below(9), () => LETTERS.charAt(below(1 + below(26))));
    return bytesOf(["", " ", '"', "_"][below(4)] + word);
  }
  if (kind === 6) return bytesOf(many(2 + below(4), () => SIGNS.charAt(below(SIGNS.length))));
  if (kind === 7) return bytesOf(String(below(10_000)));
  const [first, last] = rng.pick(BLOCKS);
  const text = bytesOf(
    many(1 + below(3), () => String.fromCodePoint(first + below(last - first + 1))),
  );
  if (kind === 8) return text;
  // Of one in two a byte is cut off at an end.
  return below(2) ? text.subarray(1) : text.subarray(0, -1);
}
