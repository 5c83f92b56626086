/** transformers.js in a page: `measure` loads an ONNX model and times prompts and answers. */
import { prompt, STARTING } from "./prompt.mjs";
import { DEFAULTS } from "./sampling.mjs";

const LIBRARY = "/peer/node_modules/@huggingface/transformers/dist/transformers.min.js";
const WASM = "/peer/node_modules/onnxruntime-web/dist/";
const opened = performance.now();

/** @param speeds what to ask; null for loading alone. */
globalThis.measure = async (name, { speeds }) => {
  const started = performance.now();
  const { AutoModelForCausalLM, AutoTokenizer, Tensor, env } = await import(LIBRARY);
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = "/peer/models/";
  env.backends.onnx.wasm.wasmPaths = WASM;
  const loading = performance.now();
  const [model] = await Promise.all([
    AutoModelForCausalLM.from_pretrained(name, {
      device: "webgpu",
      dtype: "q4",
      use_external_data_format: true,
    }),
    AutoTokenizer.from_pretrained(name),
  ]);
  const loadMs = performance.now() - loading;

  /** What an answer of `count` tokens took. */
  async function answer(tokens, count) {
    const times = [];
    const shape = [1, tokens.length];
    const start = performance.now();
    await model.generate({
      input_ids: new Tensor("int64", BigInt64Array.from(tokens, BigInt), shape),
      attention_mask: new Tensor("int64", new BigInt64Array(tokens.length).fill(1n), shape),
      max_new_tokens: count,
      min_new_tokens: count,
      do_sample: true,
      temperature: DEFAULTS.temperature,
      top_k: DEFAULTS.topK,
      top_p: DEFAULTS.topP,
      eos_token_id: -1,
      streamer: { put: () => times.push(performance.now() - start), end: () => {} },
    });
    const answerMs = performance.now() - start;
    times.shift(); // the first call brings the prompt itself
    if (times.length !== count) throw new Error(`${times.length} tokens instead of ${count}`);
    const ttftMs = times[0];
    return {
      answerMs,
      ttftMs,
      prefill: (tokens.length / ttftMs) * 1000,
      decode: count > 1 ? ((count - 1) / (times.at(-1) - ttftMs)) * 1000 : null,
    };
  }

  await answer(prompt(STARTING, 0), 1);
  const found = {
    adapter: await adapter(),
    importMs: loading - started,
    loadMs,
    firstTokenMs: performance.now() - opened,
  };
  if (!speeds) return found;
  await answer(prompt(speeds.promptTokens, 1), 2); // what the first of its kind costs more
  return { ...found, ...(await answer(prompt(speeds.promptTokens, 2), speeds.answerTokens)) };
};

async function adapter() {
  const { info } = await navigator.gpu.requestAdapter();
  return { name: info.description || info.device, vendor: info.vendor };
}
