/** Bytes spelled by characters: GPT-2's alphabet, in which each byte has one. */

/** Printable bytes stand for themselves, the rest from U+0100 on. */
export const CHARACTER_OF: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte < 0x7f) || (byte >= 0xa1 && byte !== 0xad);
    return String.fromCharCode(printable ? byte : next++);
  });
})();

/** The token that stands for a byte where a model falls back to bytes. */
export const byteToken = (byte: number): string =>
  `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;

const utf8 = new TextEncoder();

/** A text with each of its bytes spelled. */
export function spelled(text: string): string {
  let found = "";
  for (const byte of utf8.encode(text)) found += CHARACTER_OF[byte] ?? "";
  return found;
}
