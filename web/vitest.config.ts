import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    exclude: ["tests/browser/**", "node_modules/**"],
    pool: "forks",
    // A process for each of many small files took twice their time; what they stub they put back.
    isolate: false,
    // Node 20 has browsers' WebSocket behind this; later ones have it anyway.
    execArgv: ["--experimental-websocket"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
