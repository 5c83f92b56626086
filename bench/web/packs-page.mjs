/** edgewise in a page: `measure` loads a bundle and times the first answer to a prompt. */

/** @param packs `LoadOptions.prefixPacks`. */
globalThis.measure = async (url, { program, packs, tokens }) => {
  const { Engine } = await import("/library/index.js");
  const started = performance.now();
  const options = { keepPages: false, prefixPacks: packs, ...(program && { program }) };
  const engine = await Engine.load(url, options);
  const loadMs = performance.now() - started;
  const asked = { maxTokens: 8, temperature: 0, ignoreEos: true };
  const { tokenIds, timings } = await engine.generate(tokens, asked).completion;
  const { prefixBundleTokens } = await engine.stats();
  const { info } = engine;
  await engine.close();
  return {
    program: info.program,
    loadMs,
    ttftMs: timings.ttftMs,
    ofBundle: prefixBundleTokens,
    tokenIds,
  };
};
