/** One loaded model: what it answers, and how it goes on when its device is lost. */

import type { EngineInfo, EngineStats, EngineStatus, Thinking, Warning } from "../client/types.ts";
import { GenerationEngine, type Running } from "../engine/engine.ts";
import { defaultsFrom, type SamplingDefaults, samplingParams } from "../engine/sampling.ts";
import { ChatTemplate } from "../engine/template.ts";
import { thinkingOf } from "../engine/thinking.ts";
import { Tokenizer } from "../engine/tokenizer.ts";
import { EdgewiseError } from "../errors.ts";
import { storedAs } from "../format/manifest.ts";
import { openStore, type Store } from "../store/store.ts";
import { type Loaded, load, loaderPeak } from "./loader.ts";
import { promptOf, type Texts } from "./prompting.ts";
import type { LoadRequest, Prompt, Sampling } from "./protocol.ts";
import type { Reporter } from "./reporter.ts";

/** Times a lost device is asked for again, and the milliseconds waited before each. */
const RETRY_MS = [0, 500, 2000] as const;
const QUIET: Reporter = { progress: () => {}, warning: () => {} };

export interface SessionEvents {
  readonly reporter: Reporter;
  readonly onStatus: (status: EngineStatus) => void;
}

export class Session {
  private readonly request: LoadRequest;
  private readonly store: Store;
  private readonly events: SessionEvents;
  private readonly texts: LoadedTexts;
  private readonly thinking: Thinking | null;
  private readonly engine: GenerationEngine;
  private loaded: Loaded;
  private losses = 0;
  private failure: EdgewiseError | null = null;
  private readonly ending = new AbortController();

  private constructor(
    request: LoadRequest,
    store: Store,
    events: SessionEvents,
    loaded: Loaded,
    texts: LoadedTexts,
  ) {
    this.request = request;
    this.store = store;
    this.events = events;
    this.loaded = loaded;
    this.texts = texts;
    this.thinking = texts.template && thinkingOf(texts.template);
    this.engine = new GenerationEngine(loaded.program, texts.tokenizer, {
      pages: loaded.mostPages,
      context: loaded.context,
      firstChunk: loaded.firstChunk,
      onContext: (tokens) => this.warnOfContext(tokens),
      ...(request.maxBurst === undefined ? {} : { maxBurst: request.maxBurst }),
    });
    this.watch();
  }

  /** Load a model. A device that is lost meanwhile is asked for once more. */
  static async open(
    request: LoadRequest,
    events: SessionEvents,
    signal: AbortSignal,
  ): Promise<Session> {
    const store = await openStore();
    if (store.kind !== "opfs") events.reporter.warning(storageWarning(store.kind));
    const attempt = () => load(request, store, events.reporter, signal);
    const loaded = await attempt().catch((error: unknown) => {
      if (!(error instanceof EdgewiseError) || error.code !== "device.lost") throw error;
      return attempt();
    });
    try {
      const session = new Session(request, store, events, loaded, await readTexts(loaded));
      events.reporter.progress("ready", 1, 1);
      return session;
    } catch (error) {
      loaded.program.close();
      loaded.gpu.close();
      throw error;
    }
  }

  get info(): EngineInfo {
    const { files, program, gpu, context, pages, mostPages } = this.loaded;
    const { model, name } = files.manifest;
    return {
      name,
      family: model.family,
      quant: storedAs(model),
      thinking: this.thinking,
      tokenizer: files.manifest.files.get("tokenizer.json")?.sha256 ?? "",
      program: program.program.id,
      adapter: gpu.report,
      storage: this.store.kind,
      context,
      pages,
      mostPages,
      memory: program.memory(),
    };
  }

  /**
   * Begin a generation.
   *
   * @throws EdgewiseError `input.*`, `engine.busy`, `device.lost`.
   */
  start(prompt: Prompt, sampling: Sampling): Running {
    if (this.failure) throw this.failure;
    const params = samplingParams(this.texts.defaults, sampling);
    const asked = promptOf(prompt, this.texts, this.engine.context, params.maxTokens);
    return this.engine.submit({ ...asked, params });
  }

  stats(): EngineStats {
    return {
      ...this.loaded.program.counters,
      ...this.engine.stats(),
      loaderPeakBytes: loaderPeak(),
      deviceLosses: this.losses,
    };
  }

  close(): void {
    this.ending.abort();
    this.engine.close();
    this.loaded.program.close();
    this.loaded.gpu.close();
  }

  private warnOfContext(tokens: number): void {
    this.events.reporter.warning({
      code: "engine.context",
      message: `${this.loaded.gpu.report.name} has no room for longer conversations than ${tokens} tokens.`,
      remedy: "Close other tabs, or choose a smaller model.",
    });
  }

  private watch(): void {
    this.loaded.program.lost.then((error) => {
      if (!this.ending.signal.aborted) void this.recover(error);
    });
  }

  /** Load the program again, and let the engine go on with it. */
  private async recover(lost: EdgewiseError): Promise<void> {
    this.losses += 1;
    this.events.onStatus("recovering");
    this.loaded.program.close();
    this.loaded.gpu.close();
    let failure = lost;
    for (const wait of RETRY_MS) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (this.ending.signal.aborted) return;
      try {
        const { context, program } = this.loaded;
        const request = { ...this.request, context, program: program.program.id };
        this.loaded = await load(request, this.store, QUIET, this.ending.signal);
      } catch (error) {
        failure = EdgewiseError.from(error, "device.lost", "The device cannot be used again");
        continue;
      }
      this.engine.replaceProgram(this.loaded.program, this.loaded.mostPages);
      this.watch();
      this.events.onStatus("ready");
      return;
    }
    this.failure = new EdgewiseError(
      "device.lost",
      `The GPU was lost and could not be used again: ${failure.message}`,
      "Reload the page.",
      { cause: failure },
    );
    this.engine.fail(this.failure);
    this.events.onStatus("failed");
  }
}

interface LoadedTexts extends Texts {
  readonly tokenizer: Tokenizer;
  readonly defaults: SamplingDefaults;
}

async function readTexts({ files }: Loaded): Promise<LoadedTexts> {
  const names = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
  ];
  const read = await files.read(names);
  const [json, config, template, generation] = names.map((name) => read.get(name) ?? null);
  if (!json) {
    throw new EdgewiseError(
      "tokenizer.missing",
      "The bundle has no tokenizer.json.",
      "Compile the model again from a checkpoint that has one.",
    );
  }
  const tokenizer = Tokenizer.fromFiles(json, config ?? null);
  return {
    name: files.manifest.name,
    tokenizer,
    template: ChatTemplate.fromFiles(template ?? null, config ?? null, tokenizer.specialTokens),
    defaults: defaultsFrom(generation ?? null),
  };
}

function storageWarning(kind: "indexeddb" | "memory"): Warning {
  return kind === "indexeddb"
    ? {
        code: "store.indexeddb",
        message: "This browser has no file storage for pages: models are kept in IndexedDB.",
        remedy: "Loading takes a little longer. Nothing has to be done.",
      }
    : {
        code: "store.memory",
        message: "This browser keeps nothing for this page: models are fetched again each time.",
        remedy: "Leave private browsing, or allow the site to keep data.",
      };
}
