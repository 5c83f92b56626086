import { probe } from "../device/adapter.ts";
import type { MetricsSnapshot } from "../engine/metrics/metrics.ts";
import type { ChromeTrace } from "../engine/metrics/trace.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { askToKeep } from "../store/persistence.ts";
import type { FromWorker, Prompt, Sampling } from "../worker/protocol.ts";
import { Calls } from "./calls.ts";
import { type OnDeltas, Pieces } from "./generation.ts";
import { machineOf } from "./machine.ts";
import { startWorker } from "./start.ts";
import type {
  AdapterReport,
  ChatOptions,
  ChoicesOptions,
  Completion,
  EngineInfo,
  EngineStats,
  GenerateOptions,
  Generation,
  LoadOptions,
  Message,
} from "./types.ts";

/** Choices of one prompt at most. */
const MAX_CHOICES = 64;

/**
 * A compiled model in this tab. It runs in a worker of its own, so the page stays responsive.
 *
 *     const engine = await Engine.load("/bundles/demo-q4/");
 *     for await (const text of engine.chat([{ role: "user", content: "Hello" }])) show(text);
 *
 * Several generations may run at once: they are decoded together, and what one says does not
 * depend on the others. Errors are `EdgewiseError`s with a code, a message and what to do.
 */
export class Engine {
  private loaded: EngineInfo;
  private readonly calls: Calls;

  private constructor(info: EngineInfo, calls: Calls) {
    this.loaded = info;
    this.calls = calls;
  }

  /**
   * What is loaded, and on what it runs. It changes with the program, where a GPU that is lost again and again
   * is given another one, and with the context, where memory turns out to be too small for it.
   */
  get info(): EngineInfo {
    return this.loaded;
  }

  /** What WebGPU offers here, or in plain words why it offers nothing. Never rejects. */
  static async probe(): Promise<AdapterReport> {
    return (await probe(navigator.gpu)).report;
  }

  /**
   * Load a bundle: choose a program for this adapter, compile it, fetch what is not here yet.
   *
   * @param url the bundle's folder, such as `/bundles/demo-q4/`.
   * @throws EdgewiseError among others `device.adapter` (no WebGPU), `device.memory`,
   *   `store.network`, `bundle.checksum`, `worker.failed`, `load.aborted`.
   */
  static async load(url: string | URL, options: LoadOptions = {}): Promise<Engine> {
    const { signal, onProgress, onWarning, onStatus } = options;
    const { program, context, maxBurst, draft, trace } = options;
    const { keepPages, prefixPacks, spillAfterMs } = options;
    if (signal?.aborted) throw aborted();
    let engine: Engine | null = null;
    const calls = new Calls(startWorker(options.workerUrl), (message: FromWorker) => {
      if (message.type === "progress") onProgress?.(message.progress);
      else if (message.type === "warning") onWarning?.(message.warning);
      else if (message.type === "status") onStatus?.(message.status);
      else if (message.type === "info" && engine) engine.loaded = message.info;
    });
    if (options.persist ?? true) askToKeep();
    const request = {
      url: new URL(url, document.baseURI).href,
      machine: machineOf(navigator),
      ...(program === undefined ? {} : { program }),
      ...(context === undefined ? {} : { context }),
      ...(maxBurst === undefined ? {} : { maxBurst }),
      ...(draft === undefined ? {} : { draft }),
      ...(trace === undefined ? {} : { trace }),
      ...(keepPages === undefined ? {} : { keepPages }),
      ...(prefixPacks === undefined ? {} : { prefixPacks }),
      ...(spillAfterMs === undefined ? {} : { spillAfterMs }),
    };
    const { id, answer } = calls.send({ type: "load", request });
    const stop = () => calls.stop(id);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      engine = new Engine((await answer) as EngineInfo, calls);
      return engine;
    } catch (error) {
      calls.end(EdgewiseError.from(error, "load.failed", "Loading failed"));
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Answer a conversation, written down as the model's chat template says. */
  chat(messages: readonly Message[], options: ChatOptions = {}): Generation {
    return this.start(...ofConversation(messages, options));
  }

  /** Go on from a text, or from token ids. */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    return this.start(ofText(prompt), options);
  }

  /**
   * Several answers to a conversation, or several ways to go on from a text or token ids: `n` of them, 1 to 64. What
   * they answer is read once; each has random numbers of its own, and the first is what it would be alone.
   *
   * @throws EdgewiseError `input.sampling` for another `n`.
   */
  choices(
    prompt: string | readonly number[] | readonly Message[],
    { n, ...options }: ChoicesOptions,
  ): readonly Generation[] {
    if (!Number.isInteger(n) || n < 1 || n > MAX_CHOICES) {
      const wanted = `a whole number from 1 to ${MAX_CHOICES}`;
      throw new EdgewiseError("input.sampling", `n is ${shorten(n)}; it must be ${wanted}.`);
    }
    if (isConversation(prompt)) {
      const [asked, others] = ofConversation(prompt, options);
      return this.startAll(asked, others, n);
    }
    return this.startAll(ofText(prompt), options, n);
  }

  /** Counters since loading. */
  async stats(): Promise<EngineStats> {
    return (await this.calls.send({ type: "stats" }).answer) as EngineStats;
  }

  /** What was counted since loading: times, tokens, pages, by the names of Python's engine. */
  async metrics(): Promise<MetricsSnapshot> {
    return (await this.calls.send({ type: "metrics" }).answer) as MetricsSnapshot;
  }

  /**
   * What was done and when, as https://ui.perfetto.dev and chrome://tracing open it, once it is JSON.
   *
   * @throws EdgewiseError `input.trace` of a model that was loaded without `trace: true`.
   */
  async trace(): Promise<ChromeTrace> {
    return (await this.calls.send({ type: "trace" }).answer) as ChromeTrace;
  }

  /** Remove the KV pages of all models from the origin's storage, and let go of those of this one in memory. */
  async forgetPages(): Promise<void> {
    await this.calls.send({ type: "forget" }).answer;
  }

  /** End what runs and give the memory back. Closing twice is fine. */
  async close(): Promise<void> {
    await this.calls.send({ type: "close" }).answer.catch(() => null);
    this.calls.end(
      new EdgewiseError("device.closed", "The engine is closed.", "Load the model again."),
    );
  }

  private start(prompt: Prompt, options: GenerateOptions): Generation {
    const [one] = this.startAll(prompt, options, 1);
    if (!one) throw new EdgewiseError("internal", "Nothing was begun.");
    return one;
  }

  /** The first is begun last, with the ids that the others answer to. */
  private startAll(prompt: Prompt, options: GenerateOptions, n: number): readonly Generation[] {
    const { signal, responseFormat, tools, toolChoice, toolFormat, reasoning, ...sampling } =
      options;
    const wanted = { responseFormat, tools, toolChoice, toolFormat, reasoning };
    const others: number[] = [];
    const begun = Array.from({ length: n - 1 }, () =>
      this.follow(signal, (onDeltas) => {
        const call = this.calls.expect(onDeltas);
        others.push(call.id);
        return call;
      }),
    );
    const first = this.follow(signal, (onDeltas) =>
      this.calls.send(
        { type: "generate", prompt, wanted, sampling: sampling satisfies Sampling, others },
        onDeltas,
      ),
    );
    for (const generation of [first, ...begun]) if (signal?.aborted) generation.stop();
    return [first, ...begun];
  }

  private follow(
    signal: AbortSignal | undefined,
    begin: (onDeltas: OnDeltas) => ReturnType<Calls["send"]>,
  ): Generation {
    return new Pieces((onDeltas) => {
      const { id, answer } = begin(onDeltas);
      const stop = () => this.calls.stop(id);
      signal?.addEventListener("abort", stop, { once: true });
      const completion = answer.finally(() => signal?.removeEventListener("abort", stop));
      return { completion: completion as Promise<Completion>, stop };
    });
  }
}

function ofConversation(
  messages: readonly Message[],
  options: ChatOptions,
): [Prompt, GenerateOptions] {
  const { contextPolicy = "stop", begun = [], variables = {}, ...rest } = options;
  const { specialTokens = "text", ...others } = rest;
  const prompt = { messages, contextPolicy, begun, variables, specialTokens };
  return [{ kind: "chat", ...prompt }, others];
}

function ofText(prompt: string | readonly number[]): Prompt {
  return typeof prompt === "string"
    ? { kind: "text", text: prompt }
    : { kind: "tokens", tokens: prompt };
}

function isConversation(
  prompt: string | readonly number[] | readonly Message[],
): prompt is readonly Message[] {
  return typeof prompt !== "string" && typeof prompt[0] === "object";
}

function aborted(): EdgewiseError {
  return new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
}
