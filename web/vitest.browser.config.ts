import { defineConfig } from "vitest/config";

/** Tests in a real browser, one file at a time, all in one process: they share browsers and a host. */
export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
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
