/** WebGPU in Node, by Dawn on Mesa's lavapipe: real shaders and real errors, without a GPU. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { create, globals } from "webgpu";

const REPOSITORY = resolve(import.meta.dirname, "../../..");
const BUILD = join(REPOSITORY, "build", "device");
const SOURCE = join(REPOSITORY, "tests", "browser", "lvp_shim.c");

let opened: GPU | null = null;

/** What a page has as `navigator.gpu`, with WebGPU's constants made global. */
export function lavapipe(): GPU {
  // Dawn ends the process where its instance is collected while a device lives.
  opened ??= open();
  return opened;
}

function open(): GPU {
  mkdirSync(BUILD, { recursive: true });
  const driver = join(BUILD, "lavapipe.json");
  const icd = { library_path: shim(), api_version: "1.3.0" };
  replace(driver, (path) =>
    writeFileSync(path, JSON.stringify({ file_format_version: "1.0.0", ICD: icd })),
  );
  process.env.VK_ICD_FILENAMES = driver;
  process.env.VK_DRIVER_FILES = driver;
  process.env.XDG_RUNTIME_DIR ??= tmpdir();
  process.env.MESA_SHADER_CACHE_DIR = join(BUILD, "shader-cache");
  Object.assign(globalThis, globals);
  return create(["backend=vulkan", "enable-dawn-features=allow_unsafe_apis"]);
}

/** The library `EDGEWISE_LVP_SHIM` names, or the one of tests/browser/lvp_shim.c, built if need be. */
function shim(): string {
  const named = process.env.EDGEWISE_LVP_SHIM;
  if (named) return named;
  const library = join(BUILD, "liblvp_shim.so");
  if (!existsSync(library) || statSync(library).mtimeMs < statSync(SOURCE).mtimeMs) {
    replace(library, (path) =>
      execFileSync("gcc", ["-O2", "-fPIC", "-shared", "-o", path, SOURCE, "-ldl"]),
    );
  }
  return library;
}

/** Write a file that other test processes may be writing or reading as well. */
function replace(path: string, write: (path: string) => void): void {
  const own = `${path}.${process.pid}`;
  write(own);
  renameSync(own, path);
}
