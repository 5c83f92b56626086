/** The bytes of a model's tokens, as a trie that masks are made by. */

import { EdgewiseError } from "../errors.ts";

/** Nodes of a trie at most; 150,000 tokens have about 400,000. */
const MAX_NODES = 1 << 24;
/** Bytes of a short token. */
const SHORT = 32;

/**
 * A trie in depth-first order, without its root: a node's first child comes right after it, and
 * `after` is where one goes on that leaves out what begins with it.
 */
export interface Trie {
  readonly count: number;
  /** Bytes of the longest token. */
  readonly longest: number;
  readonly bytes: Uint8Array;
  /** Bytes up to and with the node's: 1 for those below the root. */
  readonly depths: Int32Array;
  readonly after: Int32Array;
  /** The first token of these bytes, -1 where there is none. */
  readonly tokens: Int32Array;
}

/**
 * The tokens of a model by the bytes that they stand for, made once per tokenizer.
 *
 * A token is null that no text is made of: one that controls, or an id that pads. So is what has no
 * bytes: a constraint never allows either.
 */
export class Vocabulary {
  readonly size: number;
  /** Bytes of the longest token. */
  readonly longest: number;
  /** Tokens of 32 bytes at most, and the others. */
  readonly short: Trie;
  readonly long: Trie;
  /** A mask of the tokens that have no bytes. */
  readonly silent: Uint32Array;
  /** How many tokens have bytes. */
  readonly spoken: number;
  /** The next token of the same bytes for each token, -1 where there is none. */
  readonly same: Int32Array;

  /** @throws EdgewiseError `constraint.too_large` for more bytes than any vocabulary has. */
  constructor(private readonly tokens: readonly (Uint8Array | null)[]) {
    this.size = tokens.length;
    const sorted = sortedTokens(tokens);
    this.spoken = sorted.length;
    this.same = new Int32Array(tokens.length).fill(-1);
    for (const [i, [text, token]] of sorted.entries()) {
      const before = sorted[i - 1];
      if (before?.[0] === text) this.same[before[1]] = token;
    }
    this.short = trieOf(sorted.filter(([text]) => text.length <= SHORT));
    this.long = trieOf(sorted.filter(([text]) => text.length > SHORT));
    this.longest = Math.max(this.short.longest, this.long.longest);
    this.silent = new Uint32Array(Math.ceil(tokens.length / 32));
    for (const [token, bytes] of tokens.entries()) {
      if (bytes && bytes.length > 0) continue;
      this.silent[token >>> 5] = (this.silent[token >>> 5] ?? 0) | (1 << (token & 31));
    }
  }

  /** The bytes of a token; null where it has none, or is none of the vocabulary. */
  bytesOf(token: number): Uint8Array | null {
    return this.tokens[token] ?? null;
  }
}

/** Tokens that have bytes, by them: a character for each byte, since engines sort those fast. */
function sortedTokens(tokens: readonly (Uint8Array | null)[]): readonly [string, number][] {
  const sorted: [string, number][] = [];
  for (const [token, bytes] of tokens.entries()) {
    if (bytes && bytes.length > 0) sorted.push([latin1(bytes), token]);
  }
  return sorted.sort(([a, i], [b, j]) => (a < b ? -1 : a > b ? 1 : i - j));
}

function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

function trieOf(sorted: readonly (readonly [string, number])[]): Trie {
  const longest = sorted.reduce((most, [text]) => Math.max(most, text.length), 0);
  let count = 0;
  let before = "";
  for (const [text] of sorted) {
    count += text.length - shared(before, text);
    before = text;
  }
  if (count > MAX_NODES) {
    throw new EdgewiseError(
      "constraint.too_large",
      `The tokens of a vocabulary have ${count} different beginnings; ${MAX_NODES} are the most.`,
    );
  }
  const bytes = new Uint8Array(count);
  const depths = new Int32Array(count);
  const after = new Int32Array(count).fill(count);
  const tokens = new Int32Array(count).fill(-1);
  /** The node that is open at each depth. */
  const open = new Int32Array(longest + 1);
  let at = 0;
  before = "";
  for (const [text, token] of sorted) {
    const common = shared(before, text);
    for (let depth = before.length; depth > common; depth--) after[open[depth] ?? 0] = at;
    for (let depth = common + 1; depth <= text.length; depth++) {
      bytes[at] = text.charCodeAt(depth - 1);
      depths[at] = depth;
      open[depth] = at;
      at += 1;
    }
    if (before !== text) tokens[at - 1] = token;
    before = text;
  }
  return { count, longest, bytes, depths, after, tokens };
}

/** How many characters two texts begin with in common. */
function shared(a: string, b: string): number {
  let i = 0;
  while (i < a.length && i < b.length && a.charCodeAt(i) === b.charCodeAt(i)) i += 1;
  return i;
}
