/** How fast a bundle's model reads and writes here, and what memory that takes: by the engine that apps use. */
import { Engine } from "../client/index.ts";
import type { EngineInfo, Timings } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import type { ModelInfo } from "../format/manifest.ts";
import { integers } from "./numbers.ts";

export interface Speed {
  readonly program: string;
  readonly promptTokens: number;
  readonly ttftMs: number;
  readonly prefillTokensPerSecond: number;
  readonly decodeTokens: number;
  readonly decodeTokensPerSecond: number;
}

/** Bytes on the device, but for the loader's, which are the worker's. */
export interface MemoryInUse {
  readonly weights: number;
  /** KV pages, when the model was loaded. */
  readonly kv: number;
  readonly work: number;
  readonly peak: number;
  readonly loaderPeak: number;
  readonly pages: number;
}

export interface Unmeasured {
  readonly unmeasured: string;
}

export interface Measurements {
  readonly speed: Speed | Unmeasured;
  readonly memory: MemoryInUse | Unmeasured;
}

export interface Wanted {
  readonly url: string;
  /** Id of a program; the engine chooses where it is empty. */
  readonly program: string;
  readonly model: Pick<ModelInfo, "vocab" | "context">;
  readonly tell: (text: string) => void;
  readonly signal: AbortSignal;
}

/** Tokens that are read and written to find out how long so many take. */
const TRIAL = { read: 16, written: 4 };
/** Tokens that are measured, at most, and about how many milliseconds they take, at most. */
const MOST = { read: 256, written: 64 };
const MOST_MS = 5000;

/** Load a model once more, in a worker, and let it read and write. Rejects only where the signal aborts it. */
export async function measure(wanted: Wanted): Promise<Measurements> {
  const { url, program, signal, tell } = wanted;
  let engine: Engine;
  try {
    engine = await Engine.load(url, {
      signal,
      persist: false,
      keepPages: false,
      ...(program === "" ? {} : { program }),
      onProgress: ({ phase }) => tell(`loading the model: ${phase}`),
    });
  } catch (error) {
    signal.throwIfAborted();
    const why = unmeasured(error);
    return { speed: why, memory: why };
  }
  try {
    tell("reading and writing");
    const speed = await speedOf(engine, wanted).catch(unmeasured);
    signal.throwIfAborted();
    return { speed, memory: await memoryOf(engine).catch(unmeasured) };
  } finally {
    await engine.close();
  }
}

/** A trial first: it compiles what is compiled at first use, and tells how much can be asked for. */
async function speedOf(engine: Engine, { model, signal }: Wanted): Promise<Speed> {
  const room = Math.min(engine.info.context, model.context);
  const tokens = integers(2 * room, model.vocab, 20_261_124);
  const run = async (read: number, written: number, from: number) => {
    const prompt = [...tokens.slice(from, from + read)];
    const options = { maxTokens: written, ignoreEos: true, temperature: 0, signal };
    const { finishReason, usage, timings } = await engine.generate(prompt, options).completion;
    if (finishReason === "cancelled") throw new Error("it was stopped");
    return {
      program: engine.info.program,
      promptTokens: usage.promptTokens,
      ...ofInterest(timings),
    };
  };
  const trial = await run(Math.min(TRIAL.read, room >> 2), TRIAL.written, 0);
  const affordable = (perSecond: number, least: number, most: number) =>
    Math.round(Math.min(Math.max((perSecond * MOST_MS) / 1000, least), most));
  const read = affordable(trial.prefillTokensPerSecond, TRIAL.read, Math.min(MOST.read, room >> 1));
  const written = affordable(
    trial.decodeTokensPerSecond,
    TRIAL.written,
    Math.min(MOST.written, room >> 2),
  );
  // Other tokens than before: pages of the trial would be found again.
  return run(read, written, room);
}

function ofInterest(timings: Timings): Omit<Speed, "program" | "promptTokens"> {
  const { ttftMs, prefillTokensPerSecond, decodeTokens, decodeTokensPerSecond } = timings;
  return { ttftMs, prefillTokensPerSecond, decodeTokens, decodeTokensPerSecond };
}

async function memoryOf(engine: Engine): Promise<MemoryInUse> {
  const { param, state, input, output, scratch }: EngineInfo["memory"] = engine.info.memory;
  const { peakBytes, loaderPeakBytes, pages } = await engine.stats();
  const work = input + output + scratch;
  return { weights: param, kv: state, work, peak: peakBytes, loaderPeak: loaderPeakBytes, pages };
}

function unmeasured(error: unknown): Unmeasured {
  const { message } = EdgewiseError.from(error, "selftest.speed", "It cannot be measured");
  return { unmeasured: message };
}
