/**
 * The ids of texts by the steps of a tokenizer.json: normalizer, pre-tokenizer, model, post-processor.
 *
 * Each does what the step of its name does in the tokenizers package that Python uses.
 */

import type { JsonObject } from "../json.ts";
import { isObject } from "../json.ts";
import type { Vocabulary } from "../rules.ts";
import type { AddedToken } from "../tokens.ts";
import { Finder } from "./added.ts";
import { Bpe } from "./bpe.ts";
import type { Model } from "./model.ts";
import { type Normalizer, normalizerOf } from "./normalizers.ts";
import { postProcessorOf } from "./post-processors.ts";
import { type Piece, preTokenizerOf } from "./pre-tokenizers.ts";
import { Unigram } from "./unigram.ts";
import { unsupported } from "./unsupported.ts";
import { WordLevel, WordPiece } from "./words.ts";

const MODELS: Readonly<Record<string, new (spec: JsonObject, tokens: Vocabulary) => Model>> = {
  BPE: Bpe,
  Unigram,
  WordLevel,
  WordPiece,
};

export class Pipeline {
  readonly normalizer: Normalizer | null;
  private readonly cut: ((piece: Piece) => readonly Piece[]) | null;
  private readonly model: Model;
  private readonly around: ((ids: readonly number[]) => readonly number[]) | null;
  private readonly raw: Finder;
  private readonly normal: Finder;

  /**
   * @param json a tokenizer.json whose rules have been checked.
   * @throws EdgewiseError `unsupported.tokenizer` for a step that is not known; TypeError, in
   *   words, for one that says nothing that can be done.
   */
  constructor(json: JsonObject, vocabulary: Vocabulary, added: readonly AddedToken[]) {
    const { normalizer, pre_tokenizer, post_processor } = json;
    this.normalizer = isNothing(normalizer) ? null : normalizerOf(normalizer);
    if (this.normalizer && marksAfterCuts(pre_tokenizer))
      throw unsupported("order of", pre_tokenizer);
    this.cut = isNothing(pre_tokenizer) ? null : preTokenizerOf(pre_tokenizer);
    this.around = isNothing(post_processor) ? null : postProcessorOf(post_processor);
    this.model = modelOf(json.model, vocabulary);
    this.raw = new Finder(
      added.filter((token) => !token.normalized),
      (content) => content,
    );
    this.normal = new Finder(
      added.filter((token) => token.normalized),
      (content) => this.normalized({ text: content, first: true }).text,
    );
  }

  /** How an added token is written in texts that are decoded: normalized where it is looked for so. */
  written({ content, normalized }: AddedToken): string {
    return normalized ? this.normalized({ text: content, first: true }).text : content;
  }

  /** The ids of a text, with what the post-processor adds where that is asked for. */
  encode(text: string, addSpecialTokens: boolean): number[] {
    const ids: number[] = [];
    for (const raw of this.raw.parts({ text, first: true })) {
      for (const part of typeof raw === "number"
        ? [raw]
        : this.normal.parts(this.normalized(raw))) {
        if (typeof part === "number") ids.push(part);
        else this.tokenize(part, ids);
      }
    }
    return addSpecialTokens && this.around ? [...this.around(ids)] : ids;
  }

  /** The ids of a text in which no added tokens are looked for. */
  encodePlainly(text: string): number[] {
    const ids: number[] = [];
    if (text !== "") this.tokenize(this.normalized({ text, first: true }), ids);
    return ids;
  }

  private normalized(piece: Piece): Piece {
    if (!this.normalizer) return piece;
    const first = piece.first && !this.normalizer.beheads(piece.text);
    return { text: this.normalizer.of(piece.text), first };
  }

  private tokenize(piece: Piece, ids: number[]): void {
    if (piece.text === "") return;
    for (const { text } of this.cut?.(piece) ?? [piece]) {
      for (const id of this.model.ids(text)) ids.push(id);
    }
  }
}

/**
 * Whether a Metaspace that only marks a text's beginning comes after other cuts.
 *
 * What begins a text is then a matter of which characters a normalizer has put in, of which no
 * account is kept here.
 */
function marksAfterCuts(step: unknown): boolean {
  const parts = isObject(step) && Array.isArray(step.pretokenizers) ? step.pretokenizers : [];
  const steps: unknown[] = parts.flat();
  return steps.some((part, i) => {
    if (!isObject(part)) return false;
    const marks = part.type === "Metaspace" && part.prepend_scheme === "first";
    return (i > 0 && marks) || (part.type === "Sequence" && (i > 0 || marksAfterCuts(part)));
  });
}

const isNothing = (step: unknown) => step === null || step === undefined;

/** Of a model that names no kind it is told by what it has, as in the package. */
function modelOf(spec: unknown, vocabulary: Vocabulary): Model {
  const model = isObject(spec) ? spec : {};
  const kind = model.type ?? kindOf(model);
  const make = Object.hasOwn(MODELS, String(kind)) ? MODELS[String(kind)] : undefined;
  if (!make) throw unsupported("model", model);
  return new make(model, vocabulary);
}

function kindOf(model: JsonObject): string {
  if ("merges" in model) return "BPE";
  if (Array.isArray(model.vocab)) return "Unigram";
  return "max_input_chars_per_word" in model ? "WordPiece" : "WordLevel";
}
