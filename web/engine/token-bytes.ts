/** The bytes of each token in a text, by which a grammar tells which tokens may come. */

import { EdgewiseError, shorten } from "../errors.ts";
import { BYTE_OF, BYTE_TOKEN, flatDecoder, wordPiece } from "./detokenize.ts";

type Spec = Readonly<Record<string, unknown>>;
/** A token, or the bytes that it has turned out to be. */
type Spelling = string | Uint8Array;

/**
 * What a token adds to a text that has begun, by the decoder of its tokenizer, which a `Detokenizer`
 * can stream. The first token of a text may lose a space that it begins with; nothing is said of that.
 *
 * @param decoder `decoder` of tokenizer.json.
 * @throws EdgewiseError `unsupported.constraint` where tokens have no bytes of their own.
 */
export function bytesOfTokens(decoder: unknown): (token: string) => Uint8Array {
  if (decoder === null || decoder === undefined) throw refused(decoder);
  const encoder = new TextEncoder();
  const steps = flatDecoder(decoder).map(stepOf);
  return (token) => {
    let spelling: Spelling = token;
    for (const step of steps) if (typeof spelling === "string") spelling = step(spelling);
    return typeof spelling === "string" ? encoder.encode(spelling) : spelling;
  };
}

/** A step of a decoder that does to each token what it does to it alone, but to the first. */
function stepOf(spec: Spec): (token: string) => Spelling {
  const { content, start, stop } = spec;
  switch (spec.type) {
    case "ByteLevel":
      return byteLevel;
    case "ByteFallback":
      return (token) => {
        const byte = BYTE_TOKEN.exec(token)?.[1];
        return byte === undefined ? token : Uint8Array.of(Number.parseInt(byte, 16));
      };
    case "Fuse":
      return (token) => token;
    case "Metaspace":
      return (token) => token.replaceAll(String(spec.replacement), " ");
    case "Replace": {
      const pattern = String(Object(spec.pattern).String);
      return (token) => token.replaceAll(pattern, () => String(content));
    }
    case "Strip":
      // What takes spaces off a text's start takes them off its first token.
      if (content !== " " || stop !== 0 || Number(start) > 1) throw refused(spec);
      return (token) => token;
    case "WordPiece":
      return (token) => wordPiece(spec, token, false);
    default:
      throw refused(spec);
  }
}

function byteLevel(token: string): Spelling {
  const bytes = Array.from(token, (character) => BYTE_OF.get(character));
  // An added token is spelled as it is.
  return bytes.every((byte) => byte !== undefined) ? Uint8Array.from(bytes) : token;
}

function refused(spec: unknown): EdgewiseError {
  return new EdgewiseError(
    "unsupported.constraint",
    "An answer cannot be held to a format with this tokenizer: its decoder's step " +
      `${shorten(spec)} does not leave each token its own bytes.`,
    "Byte-level and SentencePiece-style tokenizers can (Llama, Qwen, Mistral, Gemma).",
  );
}
