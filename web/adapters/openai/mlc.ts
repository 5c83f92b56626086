/** What pages that use WebLLM call, over this engine: they change the import and the model's name. */

import { Engine } from "../../client/engine.ts";
import type { Generation, LoadOptions, LoadProgress } from "../../client/types.ts";
import { partOf } from "../progress.ts";
import { type OpenAI, openai } from "./openai.ts";

/** WebLLM's list of models. Here a bundle's name or URL says all of it, so the list is empty. */
export const prebuiltAppConfig = { model_list: [] } as const;

export interface MLCEngineOptions extends LoadOptions {
  /** WebLLM's list of models and where it keeps them: not read. */
  readonly appConfig?: unknown;
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
  { initProgressCallback, onProgress, appConfig: _, ...options }: MLCEngineOptions = {},
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
  const watch = (ending: AbortController, generations: readonly Generation[]) => {
    running.add(ending);
    const completions = generations.map(({ completion }) => completion);
    void Promise.allSettled(completions).then(() => running.delete(ending));
  };
  const watched = openai({
    get info() {
      return engine.info;
    },
    chat(messages, given = {}) {
      const ending = endingWith(given.signal);
      const generation = engine.chat(messages, { ...given, signal: ending.signal });
      watch(ending, [generation]);
      return generation;
    },
    choices(messages, given) {
      const ending = endingWith(given.signal);
      const generations = engine.choices(messages, { ...given, signal: ending.signal });
      watch(ending, generations);
      return generations;
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

function endingWith(signal: AbortSignal | undefined): AbortController {
  const ending = new AbortController();
  signal?.addEventListener("abort", () => ending.abort(), { once: true });
  if (signal?.aborted) ending.abort();
  return ending;
}

function saidOf(progress: LoadProgress) {
  const { phase, done, total } = progress;
  const share = total > 0 ? done / total : 0;
  return { part: partOf(progress), text: `Loading: ${phase}, ${Math.floor(100 * share)} %` };
}
