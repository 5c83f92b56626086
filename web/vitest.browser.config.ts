import { defineConfig } from "vitest/config";

/** Tests in a real browser, one file at a time: they share its cores and one host. */
export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
    globalSetup: ["tests/browser/global-setup.ts"],
    pool: "forks",
    fileParallelism: false,
    testTimeout: 400_000,
    hookTimeout: 400_000,
    teardownTimeout: 20_000,
  },
});
