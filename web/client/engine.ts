import { probe } from "../device/adapter.ts";
import { EdgewiseError } from "../errors.ts";
import { askToKeep } from "../store/persistence.ts";
import type { FromWorker, Prompt, Sampling } from "../worker/protocol.ts";
import { Calls } from "./calls.ts";
import { Pieces } from "./generation.ts";
import { machineOf } from "./machine.ts";
import { startWorker } from "./start.ts";
import type {
  AdapterReport,
  ChatOptions,
  Completion,
  EngineInfo,
  EngineStats,
  GenerateOptions,
  Generation,
  LoadOptions,
  Message,
} from "./types.ts";

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
    const { signal, onProgress, onWarning, onStatus, program, context, maxBurst, keepPages } =
      options;
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
      ...(keepPages === undefined ? {} : { keepPages }),
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
    const { contextPolicy = "stop", begun = [], variables = {}, ...rest } = options;
    const { specialTokens = "text", ...others } = rest;
    const prompt = { messages, contextPolicy, begun, variables, specialTokens };
    return this.start({ kind: "chat", ...prompt }, others);
  }

  /** Go on from a text, or from token ids. */
  generate(prompt: string | readonly number[], options: GenerateOptions = {}): Generation {
    return this.start(
      typeof prompt === "string"
        ? { kind: "text", text: prompt }
        : { kind: "tokens", tokens: prompt },
      options,
    );
  }

  /** Counters since loading. */
  async stats(): Promise<EngineStats> {
    return (await this.calls.send({ type: "stats" }).answer) as EngineStats;
  }

  /** Remove the KV pages of all models from the origin's storage. */
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
    const { signal, responseFormat, tools, toolChoice, toolFormat, reasoning, ...sampling } =
      options;
    const given = { responseFormat, tools, toolChoice, toolFormat, reasoning };
    return new Pieces((onDeltas) => {
      const { id, answer } = this.calls.send(
        { type: "generate", prompt, wanted: given, sampling: sampling satisfies Sampling },
        onDeltas,
      );
      const stop = () => this.calls.stop(id);
      if (signal?.aborted) stop();
      signal?.addEventListener("abort", stop, { once: true });
      const completion = answer.finally(() => signal?.removeEventListener("abort", stop));
      return { completion: completion as Promise<Completion>, stop };
    });
  }
}

function aborted(): EdgewiseError {
  return new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
}
