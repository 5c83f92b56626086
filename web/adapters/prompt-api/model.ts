/** The Prompt API's `LanguageModel` over an engine of this tab, or of a host. */

import { Engine } from "../../client/engine.ts";
import type { AnyEngine } from "../../client/remote.ts";
import type { LoadOptions } from "../../client/types.ts";
import { partOf } from "../progress.ts";
import { quotaExceeded } from "./errors.ts";
import { inputOf } from "./input.ts";
import { offered, settingsOf, supported } from "./options.ts";
import { KEY, LanguageModel as Session } from "./session.ts";
import { estimated, read } from "./tokens.ts";
import type {
  Availability,
  CreateMonitor,
  LanguageModelCreateCoreOptions,
  LanguageModelCreateOptions,
} from "./types.ts";
import { until } from "./until.ts";

/** What a page has as `LanguageModel`. */
export interface LanguageModelClass {
  readonly prototype: Session;
  /** Whether there is a model; one that is not loaded is `downloadable`, wherever its weights are. */
  availability(options?: LanguageModelCreateCoreOptions): Promise<Availability>;
  /**
   * A session; the first one loads the model, and all share it.
   *
   * @throws DOMException `NotSupportedError`, `NetworkError`, `QuotaExceededError`, `OperationError`, the signal's
   *   reason; TypeError and RangeError.
   */
  create(options?: LanguageModelCreateOptions): Promise<Session>;
}

/**
 * A class to be `globalThis.LanguageModel` where the browser has none.
 *
 *     const LanguageModel = languageModel("/bundles/demo-q4/");
 *     const session = await LanguageModel.create();
 *
 * @param model a bundle's URL, loaded when the first session is made, or an engine.
 * @param options of loading a URL.
 */
export function languageModel(
  model: string | URL | AnyEngine,
  options: LoadOptions = {},
): LanguageModelClass {
  const source = new Source(model, options);
  return class LanguageModel extends Session {
    static async availability(given: LanguageModelCreateCoreOptions = {}): Promise<Availability> {
      return supported(given) ? source.availability() : "unavailable";
    }

    static async create(given: LanguageModelCreateOptions = {}): Promise<Session> {
      const settings = settingsOf(given);
      const initial = given.initialPrompts ? inputOf(given.initialPrompts).messages : [];
      const signal = given.signal ?? new AbortController().signal;
      const session = await until(
        signal,
        async () => {
          const engine = await source.loaded(progressOf(given.monitor, signal));
          let usage = 0;
          if (initial.length > 0) {
            const tokens = await read(engine, initial, offered(settings), signal);
            const { context } = engine.info;
            if (tokens === null || tokens >= context) {
              throw quotaExceeded(await estimated(engine, initial, signal), context);
            }
            usage = tokens;
          }
          return new this(KEY, { engine, settings, initial, turns: [], usage });
        },
        "OperationError",
      );
      signal.addEventListener("abort", () => session.end(signal.reason), { once: true });
      return session;
    }
  };
}

/** The engine that sessions share. */
class Source {
  private readonly model: string | URL | AnyEngine;
  private readonly options: LoadOptions;
  private readonly listeners = new Set<(part: number) => void>();
  private loading: Promise<AnyEngine> | null = null;
  private engine: AnyEngine | null = null;

  constructor(model: string | URL | AnyEngine, options: LoadOptions) {
    this.model = model;
    this.options = options;
    if (typeof model !== "string" && !(model instanceof URL)) this.engine = model;
  }

  async availability(): Promise<Availability> {
    if (this.engine) return "available";
    if (this.loading) return "downloading";
    return (await Engine.probe()).available ? "downloadable" : "unavailable";
  }

  /** @param onPart hears how far it is, a part of 1 that grows: 0 first, 1 last. */
  async loaded(onPart: (part: number) => void): Promise<AnyEngine> {
    let furthest = 0;
    const heard = (part: number) => {
      if (part <= furthest || part >= 1) return;
      furthest = part;
      onPart(part);
    };
    onPart(0);
    this.listeners.add(heard);
    try {
      this.loading ??= this.load();
      const engine = this.engine ?? (await this.loading);
      onPart(1);
      return engine;
    } finally {
      this.listeners.delete(heard);
    }
  }

  private async load(): Promise<AnyEngine> {
    const { model, options } = this;
    if (typeof model !== "string" && !(model instanceof URL)) return model;
    try {
      this.engine = await Engine.load(model, {
        ...options,
        onProgress: (progress) => {
          options.onProgress?.(progress);
          for (const heard of this.listeners) heard(partOf(progress));
        },
      });
      return this.engine;
    } catch (error) {
      this.loading = null; // the next session tries again
      throw error;
    }
  }
}

function progressOf(
  monitor: LanguageModelCreateOptions["monitor"],
  signal: AbortSignal,
): (part: number) => void {
  if (!monitor) return () => {};
  const target = Object.assign(new EventTarget(), { ondownloadprogress: null }) as CreateMonitor;
  target.addEventListener("downloadprogress", (event) => target.ondownloadprogress?.(event));
  monitor(target);
  return (loaded) => {
    if (signal.aborted) return;
    target.dispatchEvent(new ProgressEvent("downloadprogress", { loaded, total: 1 }));
  };
}
