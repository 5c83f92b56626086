/** edgewise in a page: `measure` loads a bundle and times prompts and answers. */
import { prompt, STARTING } from "./prompt.mjs";
import { DEFAULTS, GREEDY } from "./sampling.mjs";

const opened = performance.now();

/** What an answer of `maxTokens` took, seen from the page; the first token as the worker saw it. */
async function answer(engine, tokens, maxTokens, sampling = DEFAULTS) {
  const started = performance.now();
  const { timings } = await engine.generate(tokens, { maxTokens, ...sampling, ignoreEos: true })
    .completion;
  const answerMs = performance.now() - started;
  const restMs = answerMs - timings.ttftMs;
  return {
    answerMs,
    ttftMs: timings.ttftMs,
    prefill: (tokens.length / timings.ttftMs) * 1000,
    decode: maxTokens > 1 ? ((maxTokens - 1) / restMs) * 1000 : null,
  };
}

/** Milliseconds of every phase of loading. */
function watch() {
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
  return { phases, onProgress };
}

/** @param speeds what to ask; null for loading alone. */
globalThis.measure = async (url, { program, speeds }) => {
  const { phases, onProgress } = watch();
  const { Engine } = await import("/library/index.js");
  const load = (more = {}) => Engine.load(url, { keepPages: false, ...(program && { program }), ...more });
  const started = performance.now();
  let engine = await load({ onProgress });
  const loadMs = performance.now() - started;
  await answer(engine, prompt(STARTING, 0), 1);
  const firstTokenMs = performance.now() - opened;
  const found = {
    program: engine.info.program,
    adapter: engine.info.adapter,
    memory: engine.info.memory,
    loadMs,
    firstTokenMs,
    phases,
  };
  if (speeds) {
    const { promptTokens, answerTokens, burstTokens, bursts } = speeds;
    await answer(engine, prompt(promptTokens, 1), 2); // what the first of its kind costs more
    Object.assign(found, await answer(engine, prompt(promptTokens, 2), answerTokens), {
      greedy: (await answer(engine, prompt(promptTokens, 5), answerTokens, GREEDY)).decode,
      loaderPeakBytes: (await engine.stats()).loaderPeakBytes,
      bursts: {},
    });
    for (const k of bursts) {
      await engine.close();
      engine = await load({ maxBurst: k });
      await answer(engine, prompt(STARTING, 3), 2);
      found.bursts[k] = (await answer(engine, prompt(promptTokens, 4), burstTokens)).decode;
    }
  }
  await engine.close();
  return found;
};
