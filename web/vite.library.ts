/** The npm package: `dist/index.js` for pages, `dist/worker.js`, which it starts, `dist/host.js`, and a file an adapter. */

import { resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const IGNORE = "/* @vite-ignore */";
const WORKER = 'new URL("../worker/worker.ts", import.meta.url)';

/** The worker is an entry of its own, for the user's bundler to find: not inlined by ours. */
const ownWorker: Plugin = {
  name: "own-worker",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("client/start.ts")) return null;
    if (!code.includes(WORKER)) throw new Error(`client/start.ts no longer says ${WORKER}`);
    const own = `new URL(${IGNORE} "./worker.js", import.meta.url)`;
    return { code: code.replace(WORKER, own), map: null };
  },
  // The user's bundler must not ignore it.
  renderChunk: (code) =>
    code.includes(IGNORE) ? { code: code.replaceAll(IGNORE, ""), map: null } : null,
};

export default defineConfig({
  root: here,
  publicDir: false,
  plugins: [ownWorker],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    sourcemap: true,
    lib: {
      formats: ["es"],
      entry: {
        index: resolve(here, "client/index.ts"),
        host: resolve(here, "client/host.ts"),
        "ai-sdk": resolve(here, "adapters/ai-sdk/index.ts"),
        openai: resolve(here, "adapters/openai/index.ts"),
        "prompt-api": resolve(here, "adapters/prompt-api/index.ts"),
        worker: resolve(here, "worker/worker.ts"),
      },
    },
  },
});
