/** A provider for Vercel's AI SDK: an engine of this tab, or of a host, as its language model. */

import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { AnyEngine } from "../../client/remote.ts";
import { streamed, whole } from "./answer.ts";
import { askOf } from "./request.ts";

export interface EdgewiseProvider {
  /** The engine's model, whatever name is said: there is one. */
  (modelId?: string): LanguageModelV4;
  languageModel(modelId?: string): LanguageModelV4;
}

/**
 * An engine for `generateText`, `streamText` and the others.
 *
 *     const edgewise = createEdgewise(await Engine.load("/bundles/demo-q4/"));
 *     const { text } = await generateText({ model: edgewise(), prompt: "Hello" });
 *
 * Errors are the engine's `EdgewiseError`s, and `unsupported.content`.
 */
export function createEdgewise(engine: AnyEngine): EdgewiseProvider {
  const languageModel = () => modelOf(engine);
  return Object.assign(() => modelOf(engine), { languageModel });
}

function modelOf(engine: AnyEngine): LanguageModelV4 {
  return {
    specificationVersion: "v4",
    provider: "edgewise",
    modelId: engine.info.name,
    supportedUrls: {},
    async doGenerate(call) {
      const { messages, options, warnings } = askOf(call);
      return whole(engine.chat(messages, options), warnings, call.abortSignal);
    },
    async doStream(call) {
      const { messages, options, warnings } = askOf(call);
      return { stream: streamed(engine.chat(messages, options), warnings, call.abortSignal) };
    },
  };
}
