/**
 * The table by which SentencePiece replaces characters: a `Precompiled` normalizer.
 *
 * It is base64: the size of a double-array trie, its units (uint32, little-endian), and the
 * replacements, each ended by a zero byte. A unit has a label in its low 8 bits, whether a key ends
 * there in bit 8, and where its children lie from bit 9 on; the value of a key, in a unit of its
 * own, is where its replacement begins. Looked up is a whole cluster of characters where it has at
 * most five bytes, else each character; of several keys the shortest holds, as in the package.
 */

/** Characters of base64: Python reads as many. */
const MOST = 8 << 20;
/** Bytes of a cluster that is looked up whole are fewer. */
const CLUSTER_BYTES = 6;
/** No two of these are one cluster, but for a line's two ends. */
const SINGLE = /^(?!.*\r\n)[\0-\u02ff]*$/su;

/** @throws TypeError for a table that is damaged. */
export function charsmapOf(encoded: unknown): (text: string) => string {
  if (typeof encoded !== "string" || encoded.length > MOST) {
    throw new TypeError("its charsmap is no text, or longer than any that has been published");
  }
  const raw = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  const size = raw.length < 4 ? 0 : new DataView(raw.buffer).getUint32(0, true);
  if (size % 4 !== 0 || size <= 0 || size > raw.length - 4) {
    throw new TypeError(`its charsmap of ${raw.length} bytes states a trie of ${size}`);
  }
  const table = new Table(new DataView(raw.buffer, 4, size), raw.subarray(4 + size));
  const clusters = new Intl.Segmenter("und", { granularity: "grapheme" });
  return (text) => {
    const parts: string[] = [];
    if (SINGLE.test(text)) {
      for (const character of text) parts.push(table.of(character) ?? character);
      return parts.join("");
    }
    for (const { segment } of clusters.segment(text)) {
      const whole = bytesOf(segment) < CLUSTER_BYTES ? table.of(segment) : undefined;
      if (whole !== undefined) parts.push(whole);
      else for (const character of segment) parts.push(table.of(character) ?? character);
    }
    return parts.join("");
  };
}

class Table {
  private readonly encoder = new TextEncoder();
  private readonly decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** What has been looked up: texts have few characters over and over. */
  private readonly known = new Map<string, string | undefined>();

  constructor(
    private readonly units: DataView,
    private readonly texts: Uint8Array,
  ) {
    this.decoder.decode(texts);
  }

  /** What stands for a character, or for a cluster; undefined where it stays. */
  of(characters: string): string | undefined {
    if (this.known.has(characters)) return this.known.get(characters);
    const found = this.lookUp(this.encoder.encode(characters));
    if (this.known.size >= KNOWN) this.known.clear();
    this.known.set(characters, found);
    return found;
  }

  private lookUp(key: Uint8Array): string | undefined {
    let at = offsetOf(this.unit(0));
    for (const byte of key) {
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = this.unit(at);
      if ((unit & 0x800000ff) !== byte) return undefined;
      at ^= offsetOf(unit);
      if ((unit >>> 8) & 1) return this.textAt(this.unit(at) & 0x7fffffff);
    }
    return undefined;
  }

  private unit(at: number): number {
    if (at * 4 >= this.units.byteLength || at < 0) {
      throw new TypeError("its charsmap's trie points beyond its end");
    }
    return this.units.getUint32(at * 4, true);
  }

  private textAt(start: number): string {
    const end = this.texts.indexOf(0, start);
    if (start >= this.texts.length) {
      throw new TypeError("its charsmap's replacements begin where there are none");
    }
    return this.decoder.decode(this.texts.subarray(start, end < 0 ? undefined : end));
  }
}

const KNOWN = 1 << 14;

const offsetOf = (unit: number) => (unit >>> 10) << ((unit & 512) >>> 6);

function bytesOf(text: string): number {
  if (text.length >= CLUSTER_BYTES) return text.length;
  let bytes = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}
