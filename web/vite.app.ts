/** The chat app and the self-test page, as `edgewise serve` hands them out. */

import { resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const PLACEHOLDER = "__PRECACHE__";

/** Tells the service worker what was built: the app's files, which it keeps for offline use. */
const precache: Plugin = {
  name: "precache",
  generateBundle(_, bundle) {
    const files = Object.keys(bundle).filter((name) => !name.endsWith(".map") && name !== "sw.js");
    const kept = files.filter((name) => name.startsWith("assets/")).map((name) => `/${name}`);
    const worker = bundle["sw.js"];
    if (worker?.type !== "chunk" || !worker.code.includes(PLACEHOLDER)) {
      throw new Error(`sw.js does not ask for ${PLACEHOLDER}`);
    }
    const urls = ["/", "/manifest.webmanifest", "/icon.svg", ...kept.sort()];
    worker.code = worker.code.replaceAll(PLACEHOLDER, JSON.stringify(urls));
  },
};

export default defineConfig({
  root: here,
  publicDir: "public",
  plugins: [precache],
  worker: { format: "es" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: resolve(here, "../sdk/edgewise/server/static"),
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        chat: resolve(here, "chat/index.html"),
        selftest: resolve(here, "selftest/selftest.html"),
        sw: resolve(here, "chat/sw.ts"),
      },
      output: {
        entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
      },
    },
  },
});
