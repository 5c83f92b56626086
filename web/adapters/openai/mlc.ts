/** What pages that use WebLLM call, over this engine: they change the import and the model's name. */

import { Engine } from "../../client/engine.ts";
import type { LoadOptions, LoadProgress } from "../../client/types.ts";
import { type OpenAI, openai } from "./openai.ts";

export interface MLCEngineOptions extends LoadOptions {
  /** Hears how far loading is: a part of 1, seconds since it began, and a line to show. */
  readonly initProgressCallback?: (report: {
    readonly progress: number;
    readonly timeElapsed: number;
    readonly text: string;
  }) => void;
}

/** An engine in WebLLM's words. */
export interface MLCEngine extends OpenAI {
  readonly openai: OpenAI;
  /** The same in this library's own words. */
  readonly engine: Engine;
  /** End what is being answered; answers are then as far as they came. */
  interruptGenerate(): void;
  /** Give the memory back. */
  unload(): Promise<void>;
}

/**
 * Load a model.
 *
 * @param model a bundle's URL, or the name of one that this page's host serves.
 * @throws EdgewiseError as `Engine.load`.
 */
export async function CreateMLCEngine(
  model: string,
  { initProgressCallback, onProgress, ...options }: MLCEngineOptions = {},
): Promise<MLCEngine> {
  const began = performance.now();
  let furthest = 0;
  const url = model.includes("/") ? model : `/bundles/${encodeURIComponent(model)}/`;
  const engine = await Engine.load(url, {
    ...options,
    onProgress: (progress) => {
      onProgress?.(progress);
      const { part, text } = saidOf(progress);
      furthest = Math.max(furthest, part); // phases overlap
      const timeElapsed = (performance.now() - began) / 1000;
      initProgressCallback?.({ progress: furthest, timeElapsed, text });
    },
  });
  const running = new Set<AbortController>();
  const watched = openai({
    get info() {
      return engine.info;
    },
    chat(messages, given = {}) {
      const ending = new AbortController();
      running.add(ending);
      given.signal?.addEventListener("abort", () => ending.abort(), { once: true });
      if (given.signal?.aborted) ending.abort();
      const generation = engine.chat(messages, { ...given, signal: ending.signal });
      const ended = () => running.delete(ending);
      generation.completion.then(ended, ended);
      return generation;
    },
    generate: (prompt, given) => engine.generate(prompt, given),
    close: () => engine.close(),
  });
  return {
    ...watched,
    openai: watched,
    engine,
    interruptGenerate() {
      for (const one of running) one.abort();
    },
    unload: () => engine.close(),
  };
}

/** How far it is, as a part of 1: nearly all of the time goes to the weights. */
function saidOf({ phase, done, total }: LoadProgress) {
  const share = total > 0 ? done / total : 0;
  const part = phase === "ready" ? 1 : phase === "weights" ? 0.1 + 0.9 * share : 0.1 * share;
  return { part, text: `Loading: ${phase}, ${Math.floor(100 * share)} %` };
}
