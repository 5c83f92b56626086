import { defineConfig } from "vitest/config";
import { QUICK } from "./tests/suite.ts";

/** Of these files tests take many seconds each, or bundles do that they load (tests/browser/bundles.py):
 * the quick suite leaves them to that of `.ci/run`. */
const LANDING = [
  "app",
  "at-rest",
  "chat-answers",
  "choices",
  "constrained",
  "counts",
  "drafts",
  "examples",
  "experts",
  "faults",
  "finite",
  "idle",
  "int8-pages",
  "killed",
  "lacking",
  "lend",
  "memory",
  "operations",
  "packs",
  "pyodide",
  "remote",
  "selftest",
  "storage-faults",
  "tokens",
  "windowed",
];

/** Tests in a real browser, one file at a time, all in one process: they share browsers and a host. */
export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
    exclude: QUICK ? LANDING.map((name) => `tests/browser/${name}.test.ts`) : [],
    globalSetup: ["tests/browser/global-setup.ts"],
    pool: "forks",
    // Node 20 has browsers' WebSocket behind this; Python in Node asks the host by it.
    execArgv: ["--experimental-websocket"],
    fileParallelism: false,
    isolate: false,
    testTimeout: 400_000,
    hookTimeout: 400_000,
    teardownTimeout: 20_000,
  },
});
