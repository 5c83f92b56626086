/** The cases of tests/grammar, which Python wrote and is checked against too. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { EdgewiseError } from "../../errors.ts";

const FOLDER = new URL("../../../tests/grammar/", import.meta.url);

/** What something becomes, or the code of its error. */
export interface Outcome {
  readonly json?: unknown;
  readonly error?: string;
}

export interface RegexCase extends Outcome {
  readonly pattern: string;
  readonly where?: "whole" | "within" | "part";
  readonly escape?: "plain" | "json";
  readonly ignore_case?: boolean;
  readonly dot_all?: boolean;
}

export interface GrammarCase extends Outcome {
  readonly what: string;
  readonly text?: string;
  /** A long text as what it repeats, and how often. */
  readonly parts?: readonly (readonly [string, number])[];
}

/** What tools/make_mask_cases.py says of each field. */
export interface MaskCases {
  readonly tokens: readonly (string | null)[];
  readonly cases: readonly {
    readonly what: string;
    readonly text: string;
    readonly triggers?: readonly string[];
    readonly after?: "free" | "end";
    readonly steps: readonly {
      readonly bytes: string;
      readonly mask: string;
      readonly ends: number;
      readonly forced: string;
      readonly free?: number;
    }[];
  }[];
}

export function maskCases(): MaskCases {
  return JSON.parse(readFileSync(new URL("masks.json", FOLDER), "utf8"));
}

export function casesOf<T>(name: string): readonly T[] {
  return JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
}

export function outcome(make: () => unknown): Outcome {
  try {
    return { json: make() };
  } catch (error) {
    if (error instanceof EdgewiseError) return { error: error.code };
    throw error;
  }
}

/** The same, with eight digits of a hash in the place of what it becomes. */
export function hashed(made: Outcome): Outcome {
  if (made.error) return made;
  const digest = createHash("sha256").update(JSON.stringify(made.json)).digest("hex");
  return { json: digest.slice(0, 8) };
}

/** The part of a case that says what becomes of it. */
export function expected({ json, error }: Outcome): Outcome {
  return error ? { error } : { json };
}
