/**
 * Text of a growing list of token ids: linear time, whole characters, equal to decoding at once.
 *
 * A tokenizer.json states its decoder as a chain of steps over token strings. Each step here is
 * the same rewriting done one token at a time: it returns what is certain and keeps back what later
 * tokens may still change, so that the pieces joined are exactly the decoder's text.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { isObject } from "./json.ts";
import { CHARACTER_OF } from "./tokenizing/bytes.ts";

/** One step of a decoder. */
interface Step {
  /** Its output is one token in several pieces. */
  readonly fused: boolean;
  /** Take one token (or one piece of a fused one); return what has become certain. */
  push(token: string): readonly string[];
  /** Return what was kept back; no token follows. */
  finish(): readonly string[];
}

type Spec = Readonly<Record<string, unknown>>;

/** What a detokenizer knows of its tokenizer. */
export interface Vocabulary {
  /** The token of an id as the vocabulary spells it. */
  tokenOf(id: number): string | undefined;
  /** `decoder` of tokenizer.json; null or undefined where it has none. */
  readonly decoder: unknown;
}

/**
 * Turns ids into text pieces that end on whole characters.
 *
 * The pieces of every `push` and of one `finish`, joined, equal the tokenizer's `decode` of all
 * ids. Bytes that never become a character are written as U+FFFD, as `decode` does.
 */
export class Detokenizer {
  private readonly vocabulary: Vocabulary;
  private readonly skipped: ReadonlySet<string>;
  private readonly steps: readonly Step[];

  /** @throws EdgewiseError `unsupported.decoder` for a decoder that cannot be streamed. */
  constructor(vocabulary: Vocabulary, skipped: ReadonlySet<string> = new Set()) {
    this.vocabulary = vocabulary;
    this.skipped = skipped;
    this.steps = stepsOf(vocabulary.decoder);
  }

  /** Return the text that `ids` complete; may be empty. */
  push(ids: Iterable<number>): string {
    let tokens: string[] = [];
    for (const id of ids) {
      const token = this.vocabulary.tokenOf(checkedId(id));
      if (token !== undefined && !this.skipped.has(token)) tokens.push(token);
    }
    for (const step of this.steps) tokens = tokens.flatMap((token) => step.push(token));
    return tokens.join("");
  }

  /** Return the text that was still kept back, once no id follows. */
  finish(): string {
    let tokens: string[] = [];
    for (const step of this.steps) {
      tokens = [...tokens.flatMap((token) => step.push(token)), ...step.finish()];
    }
    return tokens.join("");
  }
}

/** @throws EdgewiseError `input.token` for what is not a whole number from 0 below 2^32. */
export function checkedId(id: number): number {
  if (Number.isInteger(id) && id >= 0 && id < 2 ** 32) return id;
  throw new EdgewiseError(
    "input.token",
    `${shorten(id)} is not a token id: ids are whole numbers from 0.`,
  );
}

/** Bytes by their characters in GPT-2's alphabet. */
export const BYTE_OF: ReadonlyMap<string, number> = new Map(
  CHARACTER_OF.map((character, byte) => [character, byte]),
);

function byteLevel(): Step {
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  return {
    fused: true,
    push(token) {
      const bytes = Array.from(token, (character) => BYTE_OF.get(character));
      const raw = bytes.every((byte) => byte !== undefined)
        ? Uint8Array.from(bytes)
        : new TextEncoder().encode(token); // an added token, spelled as it is
      return [utf8.decode(raw, { stream: true })];
    },
    finish: () => [utf8.decode()],
  };
}

/** A token that stands for a byte, where the decoder has a step for that. */
export const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>$/;

/**
 * `<0xE5>` tokens to bytes. A run that is not UTF-8 becomes one U+FFFD a byte, so a run is only
 * certain when it ends.
 */
function byteFallback(): Step {
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });
  let run: number[] = [];
  const finish = (): readonly string[] => {
    const bytes = Uint8Array.from(run);
    run = [];
    try {
      return bytes.length ? [utf8.decode(bytes)] : [];
    } catch {
      return Array.from(bytes, () => "\ufffd");
    }
  };
  return {
    fused: false,
    push(token) {
      const byte = BYTE_TOKEN.exec(token)?.[1];
      if (byte === undefined) return [...finish(), token];
      run.push(Number.parseInt(byte, 16));
      return [];
    },
    finish,
  };
}

/** A step that rewrites every token alone; the first one may be special. */
function mapping(
  rest: (token: string) => string,
  first: (token: string) => string,
  fused: boolean,
): Step {
  let rewrite = first;
  return {
    fused,
    push(token) {
      const rewritten = rewrite(token);
      rewrite = rest;
      return [rewritten];
    },
    finish: () => [],
  };
}

/** Takes up to `start` leading and `stop` trailing `content` off one fused token. */
function stripping(content: string, start: number, stop: number): Step {
  let leading = start;
  let held = 0;
  return {
    fused: true,
    push(token) {
      if (!token) return [];
      let rest = token;
      while (leading > 0 && rest.startsWith(content)) {
        rest = rest.slice(content.length);
        leading -= 1;
      }
      if (!rest) return [];
      leading = 0;
      const text = content.repeat(held) + rest;
      held = 0;
      let end = text.length;
      while (held < stop && end > 0 && text.endsWith(content, end)) {
        end -= content.length;
        held += 1;
      }
      return [text.slice(0, end)];
    },
    finish: () => [],
  };
}

/** Rewrites every token, the last one in another way: each is certain when another one follows. */
function lasting(rest: (token: string) => string, last: (token: string) => string): Step {
  let held: string | null = null;
  return {
    fused: false,
    push(token) {
      const certain = held === null ? [] : [rest(held)];
      held = token;
      return certain;
    },
    finish() {
      const certain = held === null ? [] : [last(held)];
      held = null;
      return certain;
    },
  };
}

/** What a WordPiece decoder leaves out around English punctuation, in its order. */
const CLEANED: readonly (readonly [string, string])[] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" do not", " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/**
 * What a WordPiece decoder makes of a token.
 *
 * @param first whether a text begins with it: else it is what continues a word, or a word of its own.
 */
export function wordPiece(spec: Spec, token: string, first: boolean): string {
  const { prefix, cleanup } = spec;
  if (typeof prefix !== "string") return refuse(spec);
  const continued = token.startsWith(prefix);
  const written = first ? token : continued ? token.slice(prefix.length) : ` ${token}`;
  if (cleanup === false) return written;
  return CLEANED.reduce((text, [found, put]) => text.replaceAll(found, put), written);
}

const same = (token: string): string => token;

const STEPS: Readonly<Record<string, (spec: Spec, fused: boolean) => Step>> = {
  BPEDecoder: (spec, fused) => {
    const { suffix } = spec;
    if (fused || typeof suffix !== "string" || !suffix) return refuse(spec);
    const replaced = (by: string) => (token: string) => token.replaceAll(suffix, by);
    return lasting(replaced(" "), replaced(""));
  },
  ByteFallback: (spec, fused) => (fused ? refuse(spec) : byteFallback()),
  ByteLevel: (spec, fused) => (fused ? refuse(spec) : byteLevel()),
  Fuse: () => mapping(same, same, true),
  Metaspace: (spec, fused) => {
    const mark = spec.replacement;
    if (fused || typeof mark !== "string" || !mark) return refuse(spec);
    const drops = (spec.prepend_scheme ?? "always") !== "never" && (spec.add_prefix_space ?? true);
    const replaced = (by: string) => (token: string) => token.replaceAll(mark, () => by);
    return mapping(replaced(" "), replaced(drops ? "" : " "), false);
  },
  Replace: (spec, fused) => {
    const pattern = isObject(spec.pattern) ? spec.pattern.String : undefined;
    const content = spec.content;
    const usable = typeof pattern === "string" && pattern !== "" && typeof content === "string";
    if (!usable || (fused && [...pattern].length > 1)) return refuse(spec);
    const rewrite = (token: string) => token.replaceAll(pattern, () => content);
    return mapping(rewrite, rewrite, fused);
  },
  Strip: (spec, fused) => {
    const { content, start, stop } = spec;
    const counts = Number.isInteger(start) && Number.isInteger(stop);
    if (typeof content !== "string" || !content || !counts) return refuse(spec);
    if (fused) return stripping(content, Number(start), Number(stop));
    const alone = (token: string) => stripping(content, Number(start), Number(stop)).push(token);
    const rewrite = (token: string) => alone(token).join("");
    return mapping(rewrite, rewrite, false);
  },
  WordPiece: (spec, fused) => {
    if (fused || typeof spec.prefix !== "string") return refuse(spec);
    const rewrite = (first: boolean) => (token: string) => wordPiece(spec, token, first);
    return mapping(rewrite(false), rewrite(true), false);
  },
};

function stepsOf(decoder: unknown): readonly Step[] {
  // Without a decoder the tokenizers package joins tokens with spaces.
  if (decoder === null || decoder === undefined) {
    return [mapping((token) => ` ${token}`, same, false)];
  }
  const steps: Step[] = [];
  for (const spec of flatDecoder(decoder)) {
    const make = STEPS[String(spec.type)];
    if (make === undefined || !Object.hasOwn(STEPS, String(spec.type))) return refuse(spec);
    steps.push(
      make(
        spec,
        steps.some((step) => step.fused),
      ),
    );
  }
  return steps;
}

/**
 * The steps of a decoder, one after the other.
 *
 * @throws EdgewiseError `unsupported.decoder` for sequences deeper than any tokenizer has them.
 */
export function flatDecoder(decoder: unknown): readonly Spec[] {
  return flat(decoder, 0);
}

function flat(spec: unknown, depth: number): readonly Spec[] {
  if (!isObject(spec) || depth > 8) return refuse(spec);
  if (spec.type !== "Sequence") return [spec];
  const parts = spec.decoders;
  return Array.isArray(parts) ? parts.flatMap((part) => flat(part, depth + 1)) : refuse(spec);
}

function refuse(spec: unknown): never {
  throw new EdgewiseError(
    "unsupported.decoder",
    `The tokenizer's decoder step ${shorten(spec)} cannot be streamed.`,
    "Byte-level, SentencePiece-style and WordPiece decoders can (Llama, Qwen, Mistral, Gemma, BERT).",
  );
}
