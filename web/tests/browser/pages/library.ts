/** Gives tests the library as pages have it: `window.library`, with engines kept by name. */

import { CreateMLCEngine } from "../../../adapters/openai/index.ts";
import { type AnyEngine, type ModelFacts, RemoteEngine } from "../../../client/host.ts";
import { EdgewiseError, Engine } from "../../../client/index.ts";
import type {
  AnswerDelta,
  ChatOptions,
  Completion,
  EngineInfo,
  EngineStats,
  GenerateOptions,
  LoadOptions,
  Message,
} from "../../../client/types.ts";
import type { ErrorJson } from "../../../errors.ts";

/** What a call came to, as plain data. */
export type Outcome<T> = { readonly value: T } | { readonly error: ErrorJson };

export interface Answer {
  readonly tokenIds: readonly number[];
  readonly text: string;
  readonly finishReason: string;
  readonly pieces: number;
  readonly cachedTokens: number;
  /** Milliseconds. */
  readonly ttft: number;
}

export interface Library {
  load(name: string, url: string, options: LoadOptions): Promise<Outcome<EngineInfo>>;
  /** Ask the host's model by this name here. */
  connect(name: string, model?: string): Promise<Outcome<ModelFacts>>;
  generate(
    name: string,
    prompt: string | readonly number[],
    options: GenerateOptions,
  ): Promise<Outcome<Answer>>;
  chat(
    name: string,
    messages: readonly Message[],
    options: ChatOptions,
  ): Promise<Outcome<{ readonly completion: Completion; readonly deltas: AnswerDelta[] }>>;
  /** What a page that was written for WebLLM does; what came, and how far loading was said to be. */
  asWebLLM(model: string, question: string): Promise<WebLLMSaid>;
  stats(name: string): Promise<EngineStats>;
  /** Forget all pages at rest. */
  forget(name: string): Promise<void>;
  /** What is loaded now. */
  info(name: string): EngineInfo;
  close(name: string): Promise<void>;
  /** What the package's two entries export, for Python in the page. */
  readonly modules: {
    readonly Engine: typeof Engine;
    readonly RemoteEngine: typeof RemoteEngine;
  };
  /** Codes of warnings and statuses heard so far, in their order. */
  readonly heard: readonly string[];
}

export interface WebLLMSaid {
  readonly reply: string;
  readonly whole: string | null;
  readonly usage: number | null;
  readonly progress: readonly number[];
}

declare global {
  var library: Library;
}

const engines = new Map<string, Engine>();
const remotes = new Map<string, RemoteEngine>();
const heard: string[] = [];

globalThis.library = {
  heard,
  modules: { Engine, RemoteEngine },
  load: (name, url, options) =>
    outcome(async () => {
      const engine = await Engine.load(url, {
        keepPages: false, // whoever counts launches and copies wants those of answers
        ...options,
        onWarning: ({ code }) => heard.push(code),
        onStatus: (status) => heard.push(status),
      });
      engines.set(name, engine);
      return engine.info;
    }),
  connect: (name, model) =>
    outcome(async () => {
      const remote = await RemoteEngine.connect(model === undefined ? {} : { model });
      remotes.set(name, remote);
      return remote.info;
    }),
  generate: (name, prompt, options) =>
    outcome(async () => {
      const generation = answering(name).generate(prompt, options);
      let pieces = 0;
      for await (const piece of generation) pieces += piece === "" ? 0 : 1;
      const { tokenIds, text, finishReason, usage, timings } = await generation.completion;
      const { cachedTokens } = usage;
      return { tokenIds, text, finishReason, pieces, cachedTokens, ttft: timings.ttftMs };
    }),
  chat: (name, messages, options) =>
    outcome(async () => {
      const generation = answering(name).chat(messages, options);
      const deltas: AnswerDelta[] = [];
      for await (const delta of generation.deltas) deltas.push(delta);
      return { completion: await generation.completion, deltas };
    }),
  asWebLLM: async (model, question) => {
    const progress: number[] = [];
    const initProgressCallback = (report: { progress: number }) => progress.push(report.progress);
    const engine = await CreateMLCEngine(model, { initProgressCallback, keepPages: false });
    const messages = [{ role: "user" as const, content: question }];
    const request = { messages, temperature: 0, max_tokens: 16 };
    const chunks = await engine.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    let reply = "";
    let usage: number | null = null;
    for await (const chunk of chunks) {
      reply += chunk.choices[0]?.delta.content || "";
      usage = chunk.usage?.completion_tokens ?? usage;
    }
    const answer = await engine.openai.chat.completions.create(request);
    await engine.unload();
    return { reply, whole: answer.choices[0].message.content, usage, progress };
  },
  stats: (name) => engine(name).stats(),
  forget: (name) => engine(name).forgetPages(),
  info: (name) => engine(name).info,
  close: async (name) => {
    await answering(name).close();
    engines.delete(name);
    remotes.delete(name);
  },
};

function answering(name: string): AnyEngine {
  return remotes.get(name) ?? engine(name);
}

function engine(name: string): Engine {
  const found = engines.get(name);
  if (!found) throw new Error(`no engine ${name}`);
  return found;
}

async function outcome<T>(call: () => Promise<T>): Promise<Outcome<T>> {
  try {
    return { value: await call() };
  } catch (error) {
    if (!(error instanceof EdgewiseError)) throw error;
    return { error: error.toJson() };
  }
}
