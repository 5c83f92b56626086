/** transformers.js in a page: `measure` loads an ONNX model and times prompts and answers. */
const opened = performance.now();

function prompt(length, salt) {
  return Array.from({ length }, (_, i) => BigInt(5 + ((i * 7 + salt * 131) % 900)));
}

globalThis.measure = async (name, { rounds, promptTokens, answerTokens }) => {
  const library = await import("/peer/node_modules/@huggingface/transformers/dist/transformers.min.js");
  const { AutoModelForCausalLM, Tensor, env } = library;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = "/peer/models/";
  env.backends.onnx.wasm.wasmPaths = "/peer/node_modules/onnxruntime-web/dist/";
  const started = performance.now();
  const options = { device: "webgpu", dtype: "q4", use_external_data_format: true };
  const model = await AutoModelForCausalLM.from_pretrained(name, options);
  const loadMs = performance.now() - started;

  /** Milliseconds from the call to each token. */
  async function generate(ids, tokens) {
    const times = [];
    const shape = [1, ids.length];
    const start = performance.now();
    await model.generate({
      input_ids: new Tensor("int64", BigInt64Array.from(ids), shape),
      attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape),
      max_new_tokens: tokens,
      min_new_tokens: tokens,
      do_sample: false,
      eos_token_id: -1,
      // The first call brings the prompt itself.
      streamer: { put: () => times.push(performance.now() - start), end: () => {} },
    });
    return times.slice(1);
  }

  await generate(prompt(16, 0), 1);
  const firstTokenMs = performance.now() - opened;
  const prefill = [];
  const decode = [];
  for (let i = 0; i < rounds; i++) {
    const [first] = await generate(prompt(promptTokens, 1 + i), 1);
    prefill.push((promptTokens / first) * 1000);
    const times = await generate(prompt(32, 100 + i), answerTokens);
    decode.push(((times.length - 1) / (times.at(-1) - times[0])) * 1000);
  }
  return { loadMs, firstTokenMs, prefill, decode: { 1: decode } };
};
