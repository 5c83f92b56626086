/** Starts Chromium with a WebGPU adapter in software; every browser has a profile of its own. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type BrowserContext, chromium } from "playwright-core";
import { BUILD, REPOSITORY } from "./paths.ts";
import { killAll } from "./processes.ts";

/**
 * `swiftshader`: subgroups of 4, no shader-f16. `lavapipe`: subgroups of 8 and shader-f16.
 * `none`: a browser without WebGPU's adapters.
 */
export type AdapterName = "swiftshader" | "lavapipe" | "none";

const CHROMIUMS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const QUIET = [
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export interface RunningBrowser {
  readonly context: BrowserContext;
  /** Its folder for user data, which all its processes name. */
  readonly profile: string;
  /** Ends the browser, or kills all its processes, and starts it again with the same profile. */
  restart(how: "end" | "kill"): Promise<RunningBrowser>;
  /** Ends the browser and removes its profile. */
  close(): Promise<void>;
}

/** Path of the browser under test: `EDGEWISE_CHROMIUM`, or the first known name on PATH. */
export function findChromium(): string {
  const named = process.env.EDGEWISE_CHROMIUM;
  if (named) return named;
  for (const name of CHROMIUMS) {
    for (const folder of (process.env.PATH ?? "").split(delimiter)) {
      if (folder !== "" && existsSync(join(folder, name))) return join(folder, name);
    }
  }
  throw new Error(`no browser: none of ${CHROMIUMS.join(", ")}. Run tools/ensure_packages.sh`);
}

/**
 * Launches the browser on a localhost page's terms: no network but what the tests serve.
 *
 * @param profiles folder for what it keeps.
 */
export async function launch(adapter: AdapterName, profiles = tmpdir()): Promise<RunningBrowser> {
  mkdirSync(BUILD, { recursive: true });
  return started(adapter, mkdtempSync(join(profiles, `edgewise-browser-${adapter}-`)));
}

async function started(adapter: AdapterName, profile: string): Promise<RunningBrowser> {
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: findChromium(),
    headless: true,
    chromiumSandbox: false,
    env: { ...definedEnvironment(), ...adapterEnvironment(adapter) },
    args: adapter === "none" ? [...QUIET, "--disable-gpu"] : [...QUIET, "--enable-unsafe-webgpu"],
  });
  return {
    context,
    profile,
    async restart(how) {
      if (how === "kill") killAll(profile);
      await context.close().catch(() => undefined);
      return started(adapter, profile);
    },
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

function definedEnvironment(): Record<string, string> {
  const set: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env))
    if (value !== undefined) set[name] = value;
  return set;
}

function adapterEnvironment(adapter: AdapterName): Record<string, string> {
  if (adapter !== "lavapipe") return {};
  return {
    LD_PRELOAD: builtShim(),
    XDG_RUNTIME_DIR: tmpdir(),
    // More threads make lavapipe's times bimodal, and small kernels no faster.
    LP_NUM_THREADS: "1",
    MESA_SHADER_CACHE_DIR: join(REPOSITORY, "build", "shader-cache"),
  };
}

/** The preload library of tests/browser/lvp_shim.c, built where it is missing or older. */
function builtShim(): string {
  const source = join(REPOSITORY, "tests", "browser", "lvp_shim.c");
  const library = join(BUILD, "liblvp_shim.so");
  if (!existsSync(library) || statSync(library).mtimeMs < statSync(source).mtimeMs) {
    execFileSync("gcc", ["-O2", "-fPIC", "-shared", "-o", library, source, "-ldl"]);
  }
  return library;
}
