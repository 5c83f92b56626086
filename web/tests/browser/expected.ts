/** What Python's devices generated, from tests/browser/expected.py, and by what it may differ. */
import { readFileSync } from "node:fs";
import { inject } from "vitest";

export interface Continuations {
  /** Id of the program that Python ran. */
  readonly program: string;
  readonly tokens: readonly (readonly number[])[];
  /** By how much each token's logit leads the next best. */
  readonly margins: readonly (readonly number[])[];
  /** Standard deviation of the logits at each token. */
  readonly deviations: readonly (readonly number[])[];
}

/** What follows some prompts, by program. */
export interface Followed {
  readonly prompts: readonly (readonly number[])[];
  readonly programs: Readonly<Record<string, Continuations>>;
}

export interface Expected extends Followed {
  /** Of the bundle with int8 pages. */
  readonly coded: Followed;
  /** Of the bundle with mixtures of experts. */
  readonly experts: Followed;
  /** Of the bundle with windows. */
  readonly windowed: Followed;
  /** Of the first prompts, how likely the first tokens of `webgpu-f32` were. */
  readonly likely: readonly (readonly {
    readonly token_id: number;
    readonly logprob: number;
    readonly top: readonly { readonly token_id: number; readonly logprob: number }[];
  }[])[];
}

/** How far a logit may be off, as docs/testing.md says. */
export interface Bound {
  readonly absolute: number;
  /** Of the logits' standard deviation. */
  readonly relative: number;
}

export const FLOAT32: Bound = { absolute: 1e-3, relative: 0 };
export const FLOAT16: Bound = { absolute: 0, relative: 5e-2 };
/** Activations rounded to int8: RMS 0.035, and the largest of a vocabulary four times that. */
export const INTEGERS: Bound = { absolute: 0, relative: 0.14 };

/** Keys and values in int8: as far as exact pages may be (docs/testing.md). */
export const CODES: Bound = { absolute: 0, relative: 2e-2 };

export function readExpected(): Expected {
  return JSON.parse(readFileSync(inject("expected"), "utf8"));
}

/** Whether a token's lead is within what two correct programs may differ by. */
export function isNearTie(of: Continuations, prompt: number, at: number, bound: Bound): boolean {
  const margin = of.margins[prompt]?.[at] ?? 0;
  const deviation = of.deviations[prompt]?.[at] ?? 0;
  return margin <= 2 * (bound.absolute + bound.relative * deviation);
}
