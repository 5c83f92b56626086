/** One loaded model: what it answers, and how it goes on when its device is lost. */

import type { EngineInfo, EngineStats, EngineStatus, Thinking, Warning } from "../client/types.ts";
import type { AnswerReader } from "../engine/answer.ts";
import type { Constraints } from "../engine/constraints.ts";
import { ControlTokens } from "../engine/control.ts";
import { GenerationEngine, type Running } from "../engine/engine.ts";
import type { MetricsSnapshot } from "../engine/metrics/metrics.ts";
import type { ChromeTrace } from "../engine/metrics/trace.ts";
import { defaultsFrom, type ModelDefaults } from "../engine/model-defaults.ts";
import { type SamplingParams, samplingParams } from "../engine/sampling.ts";
import { ChatTemplate } from "../engine/template.ts";
import { thinkingOf } from "../engine/thinking.ts";
import { Tokenizer } from "../engine/tokenizer.ts";
import { EdgewiseError } from "../errors.ts";
import { storedAs } from "../format/manifest.ts";
import { openStore, type Store } from "../store/store.ts";
import type { Asked } from "./asking.ts";
import { loadAtLast } from "./attempts.ts";
import type { Attention } from "./attention.ts";
import { others } from "./choice.ts";
import { type Extras, extrasOf } from "./extras.ts";
import type { KeptPages } from "./kept-pages.ts";
import { type Hints, type Loaded, load, loaderPeak } from "./loader.ts";
import { Losses } from "./losses.ts";
import { type Prompted, promptOf, type Texts } from "./prompting.ts";
import type { LoadRequest, Prompt, Sampling, Wanted } from "./protocol.ts";
import type { Reporter } from "./reporter.ts";
import type { Spelling } from "./spelling.ts";

/** Times a lost device is asked for again, and the milliseconds waited before each. */
const RETRY_MS = [0, 500, 2000] as const;
const QUIET: Reporter = { progress: () => {}, warning: () => {} };

export interface SessionEvents {
  readonly reporter: Reporter;
  readonly onStatus: (status: EngineStatus) => void;
  /** Hears what is loaded, whenever that has changed: told before the status or warning that says why. */
  readonly onInfo: (info: EngineInfo) => void;
  readonly attention: Attention;
}

/** A generation under way, and who tells what its text is and how its tokens are spelled. */
export interface Answering {
  readonly running: Running;
  readonly reader: AnswerReader;
  /** Null where nobody asks how likely they are. */
  readonly spelling: Spelling | null;
}

export class Session {
  private readonly request: LoadRequest;
  private readonly store: Store;
  private readonly events: SessionEvents;
  private readonly texts: LoadedTexts;
  private readonly thinking: Thinking | null;
  /** Null where none are. */
  private readonly pages: KeptPages | null;
  private readonly engine: GenerationEngine;
  private loaded: Loaded;
  private readonly losses = new Losses(performance.now());
  /** Programs with which the device was lost again and again. */
  private readonly avoided = new Set<string>();
  private failure: EdgewiseError | null = null;
  private holding: Constraints | null = null;
  private readonly ending = new AbortController();

  private constructor(
    request: LoadRequest,
    store: Store,
    events: SessionEvents,
    loaded: Loaded,
    texts: LoadedTexts,
    pages: KeptPages | null,
    extras: Extras,
  ) {
    this.request = request;
    this.store = store;
    this.events = events;
    this.loaded = loaded;
    this.texts = texts;
    this.pages = pages;
    this.thinking = texts.template && thinkingOf(texts.template);
    this.engine = new GenerationEngine(loaded.program, texts.tokenizer, {
      pages: loaded.mostPages,
      context: loaded.context,
      firstChunk: loaded.firstChunk,
      onContext: (tokens) => this.warnOfContext(tokens),
      ...(pages ? { atRest: pages.atRest } : {}),
      ...(request.maxBurst === undefined ? {} : { maxBurst: request.maxBurst }),
      ...extras,
    });
    this.seen(events.attention.seen);
    this.watch();
  }

  /** Load a model, as `loadAtLast` does. */
  static async open(
    request: LoadRequest,
    events: SessionEvents,
    signal: AbortSignal,
  ): Promise<Session> {
    const store = await openStore();
    if (store.kind !== "opfs") events.reporter.warning(storageWarning(store.kind));
    const { reporter, attention } = events;
    const attempt = (hints: Hints) => load(request, store, reporter, signal, hints);
    const loaded = await loadAtLast(attempt, attention, avoidable(request));
    try {
      const texts = await readTexts(loaded);
      const pages = await pagesOf(request, loaded, reporter);
      const extras = await extrasOf(request);
      const session = new Session(request, store, events, loaded, texts, pages, extras);
      const { ignored } = texts.ofModel;
      if (ignored.length > 0) events.reporter.warning(ignoredWarning(ignored));
      events.reporter.progress("ready", 1, 1);
      return session;
    } catch (error) {
      loaded.program.close();
      loaded.gpu.close();
      throw error;
    }
  }

  get info(): EngineInfo {
    const { files, program, gpu, pages, mostPages, memory } = this.loaded;
    const { model, name } = files.manifest;
    return {
      name,
      digest: files.digest,
      family: model.family,
      quant: storedAs(model),
      thinking: this.thinking,
      tokenizer: files.manifest.files.get("tokenizer.json")?.sha256 ?? "",
      program: program.program.id,
      adapter: gpu.report,
      storage: this.store.kind,
      context: this.engine.context,
      slots: model.maxBatch,
      pages,
      mostPages,
      memory,
    };
  }

  /**
   * Begin `n` generations of one prompt.
   *
   * @throws EdgewiseError `input.*`, `unsupported.*`, `constraint.*`, `engine.busy`, `device.lost`.
   */
  async start(
    prompt: Prompt,
    wanted: Wanted,
    sampling: Sampling,
    n: number,
  ): Promise<readonly Answering[]> {
    if (this.failure) throw this.failure;
    const { defaults } = this.texts.ofModel;
    const params = samplingParams(defaults, sampling);
    const { context } = this.engine;
    const asked = await this.asked(prompt, wanted);
    const longest = (sampling.maxTokens ?? null) === null ? defaults.maxLength : undefined;
    if (longest === undefined) {
      return this.submit(promptOf(prompt, asked, this.texts, context, params.maxTokens), params, n);
    }
    const most = Math.min(context, longest);
    const prompted = promptOf(prompt, asked, this.texts, most, longest);
    const maxTokens = leftOf(longest, prompted.prompt.length);
    return this.submit(prompted, { ...params, maxTokens }, n);
  }

  stats(): EngineStats {
    const stored = this.pages?.store?.stored;
    const { pages = 0, bytes = 0, limit = 0 } = stored ?? {};
    const engine = this.engine.stats();
    return {
      pagesKept: pages,
      pagesKeptBytes: bytes,
      pagesKeptLimit: limit,
      ...this.loaded.program.counters,
      ...engine,
      pagesFailure: engine.pagesFailure ?? stored?.failure?.message ?? null,
      loaderPeakBytes: loaderPeak(),
      deviceLosses: this.losses.count,
    };
  }

  metrics(): MetricsSnapshot {
    return this.engine.metrics();
  }

  traced(): ChromeTrace {
    return this.engine.traced();
  }

  /** Whether somebody sees the page. Who has little memory gives some back while nobody does. */
  seen(visible: boolean): void {
    if (this.loaded.small) this.engine.seen(visible);
  }

  /** Remove what is kept of all models' pages. */
  async forgetPages(): Promise<void> {
    this.engine.forgetPages();
    await this.pages?.store?.clear();
  }

  async close(): Promise<void> {
    this.ending.abort();
    this.engine.close();
    this.loaded.program.close();
    this.loaded.gpu.close();
    await this.pages?.close();
  }

  /** What is asked of an answer; null of a prompt that is no conversation, and asks for nothing. */
  private async asked(prompt: Prompt, wanted: Wanted): Promise<Asked | null> {
    const asks = Object.values(wanted).some((value) => (value ?? null) !== null);
    if (prompt.kind !== "chat" && !asks) return null;
    const { askedOf } = await import("./asking.ts");
    return askedOf(wanted, this.texts.template, this.texts.tokenizer);
  }

  private async submit(
    prompted: Prompted,
    params: SamplingParams,
    n: number,
  ): Promise<readonly Answering[]> {
    const { makeReader, hold, ...request } = prompted;
    const constraint = hold && (await this.constraints()).of(hold);
    const spelling = params.logprobs ? await this.spelling() : null;
    if (this.failure) throw this.failure;
    const choices = this.engine.choices({ ...request, params, constraint }, n);
    return choices.map((running) => ({ running, reader: makeReader(), spelling }));
  }

  private async spelling(): Promise<Spelling> {
    const { Spelling } = await import("./spelling.ts");
    return new Spelling(this.texts.tokenizer);
  }

  /** Who makes constraints: loaded where somebody asks for one. */
  private async constraints(): Promise<Constraints> {
    if (this.holding) return this.holding;
    const { Constraints } = await import("../engine/constraints.ts");
    const { vocab, eos } = this.loaded.files.manifest.model;
    this.holding ??= new Constraints(this.texts.tokenizer, vocab, eos);
    return this.holding;
  }

  private warnOfContext(tokens: number): void {
    this.events.onInfo(this.info);
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

  /** Load the program again, or another, and let the engine go on with it. */
  private async recover(lost: EdgewiseError): Promise<void> {
    const { files, gpu, program } = this.loaded;
    const tried = new Set([...this.avoided, program.program.id]);
    const { running, waiting } = this.engine.stats();
    const answer = this.losses.next({
      delivered: this.engine.delivered,
      busy: running + waiting > 0,
      seen: this.events.attention.seen,
      now: performance.now(),
      others: others(this.request, files.manifest, gpu, tried).length > 0,
    });
    this.events.onStatus("recovering");
    program.close();
    gpu.close();
    if (answer === "stop") {
      return this.giveUp(
        lost,
        `The GPU was lost ${this.losses.fruitless} times and nothing came of it`,
        "Close other tabs that use the GPU, or load a smaller model.",
      );
    }
    if (answer !== "again") this.engine.goGently();
    if (answer === "other") this.avoided.add(program.program.id);
    const failure = await this.reload(answer === "other" ? null : program.program.id);
    if (this.ending.signal.aborted) return;
    if (failure) {
      const what = "The GPU was lost and could not be used again";
      return this.giveUp(failure, what, "Reload the page.");
    }
    this.losses.restored(performance.now());
    if (answer !== "again") this.tellGently();
    this.engine.replaceProgram(this.loaded.program, this.loaded.mostPages);
    this.watch();
    this.events.onInfo(this.info);
    this.events.onStatus("ready");
  }

  /**
   * Load the program again, or another: a driver may need a while.
   *
   * @param program its id; null for any that has not been tried.
   * @returns why it could not be done, null where it was.
   */
  private async reload(program: string | null): Promise<EdgewiseError | null> {
    const { store, avoided } = this;
    const { attention } = this.events;
    const { signal } = this.ending;
    const request = {
      ...this.request,
      context: this.loaded.context,
      ...(program === null ? {} : { program }),
    };
    const attempt = (hints: Hints) => load(request, store, QUIET, signal, hints);
    let failure: EdgewiseError | null = null;
    for (const wait of RETRY_MS) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      await attention.returned();
      if (signal.aborted) break;
      try {
        this.loaded = await loadAtLast(attempt, attention, avoidable(request, avoided));
        await this.engine.prepare(this.loaded.program);
        return null;
      } catch (error) {
        failure ??= EdgewiseError.from(error, "device.lost", "The device cannot be used again");
      }
    }
    return failure;
  }

  private tellGently(): void {
    this.events.reporter.warning({
      code: "device.gentle",
      message:
        "The GPU was lost again and again: it is given less to do at a time, by the program " +
        `${this.loaded.program.program.id}.`,
      remedy: "Answers take longer. Close other tabs that use the GPU.",
    });
  }

  private giveUp(cause: EdgewiseError, what: string, remedy: string): void {
    const message = `${what}: ${cause.message}`;
    this.failure = new EdgewiseError("device.lost", message, remedy, { cause });
    this.engine.fail(this.failure);
    this.events.onStatus("failed");
  }
}

async function pagesOf(
  request: LoadRequest,
  loaded: Loaded,
  reporter: Reporter,
): Promise<KeptPages | null> {
  const { keepPages, prefixPacks } = request;
  if ((keepPages === false || keepPages === 0) && prefixPacks === false) return null;
  const { openPages } = await import("./kept-pages.ts");
  return openPages(request, loaded, reporter);
}

interface LoadedTexts extends Texts {
  readonly tokenizer: Tokenizer;
  readonly ofModel: ModelDefaults;
}

async function readTexts({ files }: Loaded): Promise<LoadedTexts> {
  const names = [
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
  ];
  const read = await files.read(names);
  const [json, config, template, generation, older] = names.map((name) => read.get(name) ?? null);
  if (!json) {
    throw new EdgewiseError(
      "tokenizer.missing",
      "The bundle has no tokenizer.json.",
      "Compile the model again from a checkpoint that has one.",
    );
  }
  const tokenizer = Tokenizer.fromFiles(json, config ?? null, older ?? null);
  const written = ChatTemplate.fromFiles(template ?? null, config ?? null, tokenizer.specialTokens);
  return {
    name: files.manifest.name,
    tokenizer,
    template: written,
    controls: new ControlTokens(tokenizer, {
      source: written?.source ?? "",
      plainly: () => plainly(written),
    }),
    ofModel: defaultsFrom(generation ?? null, files.manifest.model),
  };
}

/** What a template makes of a plain conversation; nothing where it refuses it. */
function plainly(template: ChatTemplate | null): string {
  const messages = ["user", "assistant", "user"].map((role) => ({ role, content: "?" }));
  try {
    return template?.render(messages) ?? "";
  } catch {
    return "";
  }
}

/** Programs that are not to be loaded: where one is asked for there is no other. */
function avoidable({ program }: LoadRequest, avoided = new Set<string>()): Set<string> {
  return program === undefined ? avoided : new Set([program]);
}

/** How many tokens an answer may have after so many, where prompt and answer have so many at most. */
function leftOf(longest: number, tokens: number): number {
  if (tokens < longest) return longest - tokens;
  throw new EdgewiseError(
    "input.context",
    `The prompt has ${tokens} tokens; by the model's generation_config.json prompt and answer have ` +
      `${longest} at most (max_length).`,
    "Say maxTokens, which comes before it.",
  );
}

function ignoredWarning(ignored: readonly string[]): Warning {
  return {
    code: "bundle.generation_config",
    message: `The model's generation_config.json asks for what edgewise does not do: ${ignored.join(", ")}.`,
    remedy: "Answers may differ from those that the model was published with.",
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
