/** What the engine's tests share: requests, a tokenizer of one character a token, waiting. */

import type { GenerateOptions } from "../../client/types.ts";
import { type EngineOptions, GenerationEngine, type Running } from "../../engine/engine.ts";
import { samplingParams } from "../../engine/sampling.ts";
import { VOCAB } from "./expected.ts";
import type { Random } from "./random.ts";
import { ReferenceProgram } from "./reference.ts";
import type { ReferenceOptions } from "./reference-bundle.ts";

/** Every token is one character, so that text and tokens say the same. */
export const tokenizer = {
  stream: () => ({ push: (ids: Iterable<number>) => textOf([...ids]), finish: () => "" }),
};

export function textOf(ids: readonly number[]): string {
  return ids.map((id) => String.fromCharCode(0x4e00 + id)).join("");
}

export function request(prompt: readonly number[], options: Omit<GenerateOptions, "signal"> = {}) {
  return { prompt, params: samplingParams({ temperature: 0 }, options) };
}

export function promptOf(random: Random, length: number): number[] {
  return Array.from({ length }, () => random.whole(0, VOCAB - 1));
}

export function makeEngine(options: ReferenceOptions, engine: Partial<EngineOptions> = {}) {
  const program = new ReferenceProgram(options);
  const context = options.context ?? 256;
  return {
    program,
    engine: new GenerationEngine(program, tokenizer, { pages: options.pages, context, ...engine }),
  };
}

/** A turn of the event loop, so that all that can happen has. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export async function textIn(running: Running): Promise<string> {
  let text = "";
  for await (const piece of running.pieces) text += piece;
  return text;
}

export async function tokensOf(running: Running): Promise<readonly number[]> {
  return (await running.completion).tokenIds;
}
