/** The bytes that each token of a tokenizer adds to a text, by its decoder. */

import { EdgewiseError, shorten } from "../errors.ts";
import { BYTE_OF, BYTE_TOKEN, flatDecoder } from "./detokenize.ts";

type Spec = Readonly<Record<string, unknown>>;
/** A token, or the bytes that it has turned out to be. */
type Spelling = string | Uint8Array;

/**
 * The bytes of tokens within a text, for a decoder that a `Detokenizer` can stream.
 *
 * They are those of a token that is not the text's first: of that, some decoders leave a space out.
 *
 * @param decoder `decoder` of tokenizer.json.
 * @throws EdgewiseError `unsupported.decoder` for one by which a token's text depends on others.
 */
export function bytesOfTokens(decoder: unknown): (token: string) => Uint8Array {
  if (decoder === null || decoder === undefined) throw refused(decoder);
  const encoder = new TextEncoder();
  const specs = flatDecoder(decoder);
  const steps = specs.map((spec, i) =>
    stepOf(
      spec,
      specs.slice(0, i).map(({ type }) => type),
    ),
  );
  return (token) => {
    let spelling: Spelling = token;
    for (const step of steps) if (typeof spelling === "string") spelling = step(spelling);
    return typeof spelling === "string" ? encoder.encode(spelling) : spelling;
  };
}

function stepOf(spec: Spec, before: readonly unknown[]): (token: string) => Spelling {
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
      // What bytes of several tokens are together might be replaced.
      if (before.some((type) => type !== "Replace")) throw refused(spec);
      const pattern = String(Object(spec.pattern).String);
      return (token) => token.replaceAll(pattern, () => String(content));
    }
    case "Strip":
      if (!before.includes("Fuse") || Number(stop) > 0 || Number(start) > 1) throw refused(spec);
      return (token) => token;
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
    "unsupported.decoder",
    `The text of a token depends on others by the tokenizer's decoder ${shorten(spec)}.`,
    "Answers of this model cannot follow a grammar.",
  );
}
