/** The chat app and the self-test page, as `edgewise serve` hands them out. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const PUBLIC = resolve(here, "public");
const SELFTEST = resolve(here, "selftest/selftest.html");

/** Tells the service worker what was built: the app's files, which it keeps for offline use. */
const precache: Plugin = {
  name: "precache",
  generateBundle: {
    order: "post",
    handler(_, bundle) {
      const built = Object.values(bundle)
        .filter(({ fileName }) => fileName !== "sw.js" && !/\.map$|selftest/.test(fileName))
        .map((file): [string, string | Uint8Array] => [
          file.fileName,
          file.type === "chunk" ? file.code : file.source,
        ]);
      const copied = readdirSync(PUBLIC, { recursive: true, encoding: "utf8" })
        .filter((name) => /\.\w+$/.test(name))
        .map((name): [string, Uint8Array] => [name, readFileSync(resolve(PUBLIC, name))]);
      const revision = createHash("sha256");
      const files = [...built, ...copied].sort(([a], [b]) => (a < b ? -1 : 1));
      for (const [name, contents] of files) revision.update(name).update("\0").update(contents);
      const urls = files.map(([name]) => `/${name}`).filter((url) => !url.endsWith(".html"));
      const worker = bundle["sw.js"];
      if (worker?.type !== "chunk") throw new Error("sw.js is not built");
      worker.code = filled(worker.code, {
        __PRECACHE__: JSON.stringify(["/", ...urls]),
        __REVISION__: JSON.stringify(revision.digest("hex").slice(0, 16)),
      });
    },
  },
};

function filled(code: string, values: Readonly<Record<string, string>>): string {
  for (const [name, value] of Object.entries(values)) {
    if (!code.includes(name)) throw new Error(`sw.js does not ask for ${name}`);
    code = code.replaceAll(name, value);
  }
  return code;
}

export default defineConfig({
  root: here,
  publicDir: PUBLIC,
  plugins: [precache],
  worker: { format: "es" },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: resolve(here, "../sdk/edgewise/server/static"),
    emptyOutDir: true,
    // Data URLs in styles would need an exception in the page's policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        chat: resolve(here, "chat/index.html"),
        ...(existsSync(SELFTEST) ? { selftest: SELFTEST } : {}),
        sw: resolve(here, "chat/sw.ts"),
      },
      output: {
        entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js"),
      },
    },
  },
});
