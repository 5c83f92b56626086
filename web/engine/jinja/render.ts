/**
 * Jinja for chat templates, which are foreign code: what one computes, holds and writes is bounded.
 *
 * An interpreter of our own, whose twin in Python is `edgewise_runtime/text/jinja`: the same grammar,
 * values, limits and charges, so that a template gives the same text in both or is refused by both. What
 * it knows of Jinja is what chat templates use; the rest is refused, never rendered otherwise.
 */

import { parse } from "./parser.ts";
import { Output, Run, Scope, type Statement } from "./run.ts";
import type { Value } from "./values.ts";

/** A template that has been parsed. */
export type Compiled = readonly Statement[];

/** @throws TemplateError for what is no template, uses what is not supported, or is too large. */
export function compileTemplate(source: string): Compiled {
  return parse(source);
}

/**
 * The text that a template writes.
 *
 * @param now what `strftime_now` reads.
 * @param given characters of the conversation, by which the limits grow.
 * @throws TemplateError for what a template does wrong, TemplateLimitError where it asks for too much.
 */
export function renderTemplate(
  compiled: Compiled,
  variables: ReadonlyMap<string, Value>,
  now: Date,
  given: number,
): string {
  const run = new Run(now, given);
  const out = new Output(run.writable);
  run.execute(compiled, new Scope(null, new Map(variables)), out);
  return out.text();
}
