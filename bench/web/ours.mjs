/** edgewise in a page: `measure` loads a bundle and times prompts and answers. */
const opened = performance.now();

/** Token ids that no two prompts share, so that nothing is found in a cache. */
function prompt(length, salt) {
  return Array.from({ length }, (_, i) => 5 + ((i * 7 + salt * 131) % 900));
}

async function generate(engine, tokens, maxTokens) {
  const options = { maxTokens, temperature: 0, ignoreEos: true };
  const generation = engine.generate(tokens, options);
  for await (const _ of generation);
  return generation.completion;
}

globalThis.measure = async (url, { program, bursts, rounds, promptTokens, answerTokens }) => {
  const { Engine } = await import("/library/index.js");
  const phases = {};
  let phase = "";
  let since = performance.now();
  const onProgress = (progress) => {
    if (progress.phase === phase) return;
    const now = performance.now();
    if (phase) phases[phase] = (phases[phase] ?? 0) + now - since;
    phase = progress.phase;
    since = now;
  };
  const load = (more = {}) => Engine.load(url, { ...(program && { program }), ...more });
  const started = performance.now();
  let engine = await load({ onProgress });
  const loadMs = performance.now() - started;
  await generate(engine, prompt(16, 0), 1);
  const firstTokenMs = performance.now() - opened;
  const { info } = engine;
  const prefill = [];
  for (let i = 0; i < rounds; i++) {
    const { timings } = await generate(engine, prompt(promptTokens, 1 + i), 1);
    prefill.push(timings.prefillTokensPerSecond);
  }
  const decode = {};
  for (const k of bursts) {
    await engine.close();
    engine = await load({ maxBurst: k });
    decode[k] = [];
    for (let i = 0; i < rounds; i++) {
      const { timings } = await generate(engine, prompt(32, 100 + i), answerTokens);
      decode[k].push(timings.decodeTokensPerSecond);
    }
  }
  const stats = await engine.stats();
  await engine.close();
  return {
    program: info.program,
    adapter: info.adapter,
    memory: info.memory,
    loadMs,
    firstTokenMs,
    phases,
    prefill,
    decode,
    loaderPeakBytes: stats.loaderPeakBytes,
  };
};
