/** Gives tests the library as pages have it: `window.library`, with engines kept by name. */
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
