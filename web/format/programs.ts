/** Which programs of a bundle an adapter can run, and which plan does what. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { BundleManifest, Needs, Program } from "./manifest.ts";

/**
 * Arithmetics of a target that round a prompt's activations to integers, which its other programs do
 * not: used only when asked for, or where they are worth it.
 */
const ROUNDING: ReadonlyMap<string, readonly string[]> = new Map([
  ["webgpu", ["w4a8", "w5a8", "w6a8", "w8a8"]],
]);

/** Whether a program rounds the activations of prompts, and others of its target do not. */
export function rounds(program: Program): boolean {
  return ROUNDING.get(program.target)?.includes(program.arithmetic) ?? false;
}

/** What of a program's needs the given features lack. */
export function missing(needs: Needs, features: ReadonlySet<string>): string[] {
  const wanted = needs.arch === null ? needs.features : [needs.arch, ...needs.features];
  return wanted.filter((name) => !features.has(name));
}

/** The programs of a target for which there is all they need, in the compiler's order. */
export function fitting(
  manifest: BundleManifest,
  features: ReadonlySet<string>,
  target = "webgpu",
): Program[] {
  return manifest.programs.filter(
    (program) => program.target === target && missing(program.needs, features).length === 0,
  );
}

/**
 * The programs of a target that these features can run, the preferred first.
 *
 * The first of the compiler's order that fits settles the arithmetic that is preferred; of one
 * arithmetic, the program that needs most comes first, because it was made for the better adapter.
 */
export function candidates(
  manifest: BundleManifest,
  features: ReadonlySet<string>,
  target = "webgpu",
): Program[] {
  const exact = fitting(manifest, features, target).filter((program) => !rounds(program));
  const arithmetics = [...new Set(exact.map((program) => program.arithmetic))];
  return arithmetics.flatMap((arithmetic) =>
    exact
      .filter((program) => program.arithmetic === arithmetic)
      .sort((a, b) => b.needs.features.length - a.needs.features.length),
  );
}

/**
 * Programs that round the activations of prompts and that these features can run: offered where one
 * decodes as one of `candidates` does and reads prompts much faster.
 */
export function rounding(
  manifest: BundleManifest,
  features: ReadonlySet<string>,
  target = "webgpu",
): Program[] {
  return fitting(manifest, features, target).filter(rounds);
}

/**
 * Name of the first plan of an operation that fits the symbol values.
 *
 * @throws EdgewiseError `bundle.entry` where there is none.
 */
export function planFor(
  program: Program,
  operation: string,
  values: ReadonlyMap<string, number>,
): string {
  const found = program.entries.get(operation)?.find(({ when }) =>
    [...when].every(([name, [low, high]]) => {
      const value = values.get(name);
      return value !== undefined && low <= value && value <= high;
    }),
  );
  if (found) return found.plan;
  const shown = shorten(Object.fromEntries(values));
  throw new EdgewiseError(
    "bundle.entry",
    `Program ${shorten(program.id)} has no plan to ${operation} ${shown}.`,
    "Compile the model again with this version of edgewise.",
  );
}
