/** The generation engine over the reference model as a page has it, without a worker between. */

import { Pieces } from "../../client/generation.ts";
import type { Lendable } from "../../client/lend.ts";
import type { ChatOptions, EngineInfo } from "../../client/types.ts";
import { AnswerReader } from "../../engine/answer.ts";
import type { EdgewiseError } from "../../errors.ts";
import { makeEngine, request } from "../engine/support.ts";

/** Requests that it answers at a time. */
export const SLOTS = 2;

export const INFO: EngineInfo = {
  name: "reference",
  digest: "a".repeat(64),
  family: "reference",
  quant: "f32",
  thinking: null,
  tokenizer: "b".repeat(64),
  program: "webgpu-f32-serial",
  adapter: {
    available: true,
    reason: "",
    name: "A GPU",
    vendor: "",
    architecture: "",
    features: [],
    fallback: false,
    limits: {
      maxBufferSize: 0,
      maxStorageBufferBindingSize: 0,
      maxComputeInvocationsPerWorkgroup: 0,
      maxComputeWorkgroupStorageSize: 0,
      maxStorageBuffersPerShaderStage: 0,
    },
    subgroupMinSize: null,
    subgroupMaxSize: null,
    key: "",
  },
  storage: "memory",
  context: 256,
  slots: SLOTS,
  pages: 64,
  mostPages: 64,
  memory: { param: 0, state: 0, input: 0, output: 0, scratch: 0 },
};

export interface ReferenceLendable extends Lendable {
  /** Sequences that the engine works on or keeps waiting. */
  readonly busy: () => number;
  /** Answers nothing from now on, as after a GPU that cannot be had again or a worker that ended. */
  readonly die: (error: EdgewiseError) => void;
}

/** @param arrive resolves when the results of one more run of the model may arrive. */
export function referenceLendable(arrive?: () => Promise<void>): ReferenceLendable {
  const { engine } = makeEngine({ pages: 64, maxBatch: SLOTS, ...(arrive && { arrive }) });
  let failure: EdgewiseError | null = null;

  function start(prompt: readonly number[], { signal: _, ...options }: ChatOptions) {
    return new Pieces((onDeltas) => {
      const reader = new AnswerReader();
      const running = engine.submit(request(prompt, options));
      const completion = (async () => {
        for await (const text of running.pieces) onDeltas(reader.push(text), []);
        onDeltas(reader.end(), running.idsFrom(0));
        return reader.completed(await running.completion);
      })();
      return { completion, stop: () => running.cancel() };
    });
  }

  return {
    info: INFO,
    // As many tokens as characters: the reference model reads ids.
    chat: (messages, options = {}) =>
      start(
        messages.flatMap(({ content }) => Array.from(String(content), () => 5)),
        options,
      ),
    generate: (prompt, options = {}) =>
      start(typeof prompt === "string" ? Array.from(prompt, () => 5) : prompt, options),
    stats: async () => {
      if (failure) throw failure;
      return engine.stats();
    },
    busy: () => engine.stats().running + engine.stats().waiting,
    die: (error) => {
      failure = error;
      engine.fail(error);
    },
  };
}
