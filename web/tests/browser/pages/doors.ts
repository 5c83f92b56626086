/** What pages do that were written for other libraries, with the model of a host's bundle. */

import { streamText } from "ai";
import { createEdgewise } from "../../../adapters/ai-sdk/index.ts";
import { CreateMLCEngine, prebuiltAppConfig } from "../../../adapters/openai/index.ts";
import { languageModel } from "../../../adapters/prompt-api/index.ts";
import { Engine } from "../../../client/index.ts";

export interface WebLLMSaid {
  readonly reply: string;
  readonly whole: string | null;
  readonly usage: number | null;
  readonly json: unknown;
  readonly progress: readonly number[];
}

/** As a page for WebLLM: what came, and how far loading was said to be. */
async function asWebLLM(model: string, question: string): Promise<WebLLMSaid> {
  const progress: number[] = [];
  const initProgressCallback = (report: { progress: number }) => progress.push(report.progress);
  const engine = await CreateMLCEngine(model, {
    appConfig: { ...prebuiltAppConfig, cacheBackend: "indexeddb" },
    initProgressCallback,
    keepPages: false,
  });
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
  const schema = {
    type: "object",
    properties: { kind: { type: "boolean" } },
    required: ["kind"],
    additionalProperties: false,
  };
  const constrained = await engine.chat.completions.create({
    messages,
    response_format: { type: "json_object", schema: JSON.stringify(schema) },
  });
  await engine.unload();
  const whole = answer.choices[0].message.content;
  const json: unknown = JSON.parse(constrained.choices[0].message.content ?? "");
  return { reply, whole, usage, json, progress };
}

/** As a page for the Prompt API, which takes the browser's own where there is one. */
async function asPromptApi(url: string, question: string) {
  const LanguageModel = languageModel(url, { keepPages: false });
  const before = await LanguageModel.availability();
  const progress: (readonly [number, number])[] = [];
  const session = await LanguageModel.create({
    initialPrompts: [
      { role: "user", content: "Hello!" },
      { role: "assistant", content: "Hello! How can I help?" },
    ],
    samplingMode: "most-predictable",
    monitor: (monitor) =>
      monitor.addEventListener("downloadprogress", ({ loaded, total }) =>
        progress.push([loaded, total]),
      ),
  });
  const begun = session.contextUsage;
  const measured = await session.measureContextUsage(question);
  const clone = await session.clone();
  const pieces: string[] = [];
  for await (const piece of session.promptStreaming(question)) pieces.push(piece);
  const whole = await clone.prompt(question);
  const usage = session.contextUsage;
  const word = await session.prompt(question, { responseConstraint: /yes|no/ });
  const schema = {
    type: "object",
    properties: { kind: { type: "boolean" } },
    required: ["kind"],
    additionalProperties: false,
  };
  const json: unknown = JSON.parse(await session.prompt("?", { responseConstraint: schema }));
  const fresh = await LanguageModel.create({ samplingMode: "most-predictable" });
  const rest = await fresh.prompt([
    { role: "user", content: question },
    { role: "assistant", content: "1+1 (as [all] know)", prefix: true },
  ]);
  let dropped = 0;
  fresh.oncontextoverflow = () => {
    dropped += 1;
  };
  const long = "word ".repeat(Math.floor(fresh.contextWindow / 2));
  await fresh.append(long);
  await fresh.append(long);
  const after = fresh.contextUsage <= fresh.contextWindow;
  const exceeded = await fresh.append(long.repeat(4)).catch((error: unknown) => ({
    name: error instanceof DOMException && error.name,
    more: Number(Reflect.get(Object(error), "requested")) > fresh.contextWindow,
  }));
  return {
    availability: [before, await LanguageModel.availability()],
    progress,
    usage: [begun, measured, usage, session.contextWindow],
    pieces,
    whole,
    word,
    json,
    rest,
    dropped,
    after,
    exceeded,
  };
}

/** As a page for Vercel's AI SDK: what it streamed, and what came of a stream that was aborted in its middle. */
async function asAiSdk(url: string, question: string) {
  const engine = await Engine.load(url, { keepPages: false });
  const model = createEdgewise(engine)();
  const asked = { model, prompt: question, temperature: 0, maxOutputTokens: 16 };
  const streamed = streamText(asked);
  const pieces: string[] = [];
  for await (const piece of streamed.textStream) pieces.push(piece);
  const usage = await streamed.usage;
  const ending = new AbortController();
  const types: string[] = [];
  const endless = streamText({ ...asked, maxOutputTokens: 400, abortSignal: ending.signal });
  for await (const { type } of endless.stream) {
    types.push(type);
    if (type === "text-delta") ending.abort();
  }
  const again = await engine.chat([{ role: "user", content: question }], {
    temperature: 0,
    maxTokens: 16,
  }).completion;
  await engine.close();
  return { pieces, outputTokens: usage.outputTokens, last: types.at(-1), again: again.text };
}

export const doors = { asWebLLM, asPromptApi, asAiSdk };
