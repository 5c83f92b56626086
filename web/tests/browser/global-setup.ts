/** Before all browser tests: builds the app and the test pages, compiles bundles, starts the host. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { build } from "vite";
import type {} from "vitest"; // for what is declared of it below
import type { TestProject } from "vitest/node";
import { BUILD, PAGES, python, REPOSITORY } from "./paths.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where `edgewise serve` listens, without a slash at the end. */
    host: string;
    /** Path of what tests/browser/expected.py wrote. */
    expected: string;
    /** Folder of the bundles that are served. */
    bundles: string;
    /** Folder for what browsers keep, gone after the run. */
    profiles: string;
  }
}

/** Called once by vitest; what it returns ends the host, and removes what browsers kept. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  buildApp();
  await buildPages();
  const port = await freePort();
  const host = spawn(python(), ["-m", "tests.browser.host", BUILD, String(port)], {
    cwd: REPOSITORY,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const made = await firstLine(host);
  const url = `http://127.0.0.1:${port}`;
  await answers(`${url}/api/bundles`, host);
  project.provide("host", url);
  project.provide("expected", made.expected);
  project.provide("bundles", made.bundles);
  const profiles = mkdtempSync(join(tmpdir(), "edgewise-browsers-"));
  project.provide("profiles", profiles);
  return async () => {
    await ended(host);
    rmSync(profiles, { recursive: true, force: true, maxRetries: 5 });
  };
}

/** By make, which leaves the app alone where it is new: Python's tests may be reading it. */
function buildApp(): void {
  // vitest's own NODE_ENV would make another build; the flags are those of a make above this.
  const { MAKEFLAGS: _, MFLAGS: __, ...environment } = process.env;
  const env = { ...environment, NODE_ENV: "production" };
  execFileSync("make", ["--silent", "web"], { cwd: REPOSITORY, stdio: "inherit", env });
}

/** The page that gives tests the library itself, in `PAGES`; see pages/library.ts. */
async function buildPages(): Promise<void> {
  await build({
    root: join(import.meta.dirname, "pages"),
    configFile: false,
    logLevel: "error",
    base: "/test/",
    worker: { format: "es" },
    build: {
      outDir: PAGES,
      emptyOutDir: true,
      target: "es2023",
      modulePreload: { polyfill: false },
      rolldownOptions: { input: join(import.meta.dirname, "pages", "library.html") },
    },
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

interface Made {
  readonly expected: string;
  readonly bundles: string;
}

/** The host's first line that is JSON, which it writes when bundles and expectations are there. */
function firstLine(host: ChildProcess): Promise<Made> {
  return new Promise((resolve, reject) => {
    const { stdout } = host;
    if (stdout === null) throw new Error("the host has no stdout");
    createInterface(stdout).on("line", (line) => {
      if (line.startsWith("{")) resolve(JSON.parse(line));
    });
    host.once("exit", (code) => reject(new Error(`the host ended with status ${code}`)));
  });
}

async function answers(url: string, host: ChildProcess): Promise<void> {
  for (let waited = 0; waited < 30_000; waited += 100) {
    if (host.exitCode !== null) throw new Error(`the host ended with status ${host.exitCode}`);
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // Not listening yet.
    }
    await delay(100);
  }
  throw new Error(`${url} did not answer within 30 s`);
}

function ended(host: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (host.exitCode !== null) return resolve();
    host.once("exit", () => resolve());
    host.kill("SIGINT");
    setTimeout(() => host.kill("SIGKILL"), 10_000).unref();
  });
}
