/** Gives tests the library as pages have it: `window.library`, with engines kept by name. */

import { type ChatChoice, openai } from "../../../adapters/openai/index.ts";
import { forgetPages, keptPages } from "../../../chat/kept-pages.ts";
import { type AnyEngine, type ModelFacts, RemoteEngine } from "../../../client/host.ts";
import {
  type ChromeTrace,
  EdgewiseError,
  Engine,
  type MetricsSnapshot,
} from "../../../client/index.ts";
import type {
  AnswerDelta,
  ChatOptions,
  ChoicesOptions,
  Completion,
  EngineInfo,
  EngineStats,
  GenerateOptions,
  LoadOptions,
  Message,
} from "../../../client/types.ts";
import type { ErrorJson } from "../../../errors.ts";
import { doors } from "./doors.ts";

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
  /** Several answers, once they are there. */
  choices(
    name: string,
    prompt: string | readonly number[],
    options: ChoicesOptions,
  ): Promise<readonly Completion[]>;
  /** So many answers with how likely their tokens were, in OpenAI's words: whole, and put together from chunks. */
  asOpenAI(
    name: string,
    question: string,
    n: number,
  ): Promise<{
    readonly whole: readonly ChatChoice[];
    readonly streamed: readonly { readonly text: string; readonly tokens: string }[];
  }>;
  /** Pages that were written for other libraries. */
  readonly doors: typeof doors;
  stats(name: string): Promise<EngineStats>;
  metrics(name: string): Promise<MetricsSnapshot>;
  trace(name: string): Promise<ChromeTrace>;
  /** Forget all pages at rest. */
  forget(name: string): Promise<void>;
  /** Remove all pages at rest as the app does, past the engine; how many there are then. */
  clearPages(): Promise<number>;
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
  /** Bytes of weights that came over the network, as far as the load in progress told. */
  readonly fetched: number;
}

declare global {
  var library: Library;
}

const engines = new Map<string, Engine>();
const remotes = new Map<string, RemoteEngine>();
const heard: string[] = [];
let fetched = 0;

globalThis.library = {
  heard,
  get fetched() {
    return fetched;
  },
  doors,
  modules: { Engine, RemoteEngine },
  load: (name, url, options) =>
    outcome(async () => {
      const engine = await Engine.load(url, {
        keepPages: false, // whoever counts launches and copies wants those of answers
        ...options,
        onWarning: ({ code }) => heard.push(code),
        onStatus: (status) => heard.push(status),
        onProgress: ({ phase, done, cached }) => {
          if (phase === "weights") fetched = done - cached;
        },
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
  choices: (name, prompt, options) =>
    Promise.all(
      engine(name)
        .choices(prompt, options)
        .map(({ completion }) => completion),
    ),
  asOpenAI: async (name, question, n) => {
    const { completions } = openai(engine(name)).chat;
    const messages = [{ role: "user" as const, content: question }];
    const more = { seed: 3, max_tokens: 8, logprobs: true, top_logprobs: 2 };
    const request = { messages, n, temperature: 1, ...more };
    const { choices: whole } = await completions.create(request);
    const streamed = whole.map(() => ({ text: "", tokens: "" }));
    for await (const { choices } of await completions.create({ ...request, stream: true })) {
      for (const { index, delta, logprobs } of choices) {
        const one = streamed[index];
        if (!one) throw new Error(`no choice ${index}`);
        one.text += delta.content ?? "";
        for (const { token } of logprobs?.content ?? []) one.tokens += token;
      }
    }
    return { whole, streamed };
  },
  stats: (name) => engine(name).stats(),
  metrics: (name) => engine(name).metrics(),
  trace: (name) => engine(name).trace(),
  forget: (name) => engine(name).forgetPages(),
  clearPages: async () => {
    await forgetPages();
    return (await keptPages()).pages;
  },
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
