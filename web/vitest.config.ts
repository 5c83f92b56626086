import { defineConfig } from "vitest/config";
import { QUICK } from "./tests/suite.ts";

/** A third of the time of all: the quick suite leaves them to that of `.ci/run`. */
const LANDING = [
  "device/refusals",
  "engine/random",
  "fuzz/fuzz",
  "grammar/matcher-bombs",
  "kv/shipped",
  "package/tarball",
  "store/fetch",
];

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    exclude: [
      "tests/browser/**",
      "node_modules/**",
      ...(QUICK ? LANDING.map((name) => `tests/${name}.test.ts`) : []),
    ],
    pool: "forks",
    // A process for each of many small files took twice their time; what they stub they put back.
    isolate: false,
    // Node 20 has browsers' WebSocket behind this; later ones have it anyway.
    execArgv: ["--experimental-websocket"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
