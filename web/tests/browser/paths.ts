/** Where the browser tests keep what they make. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

export const REPOSITORY = resolve(import.meta.dirname, "../../..");

export const BUILD = join(REPOSITORY, "build", "browser");

/** The tests' own pages, built by global-setup.ts. */
export const PAGES = join(BUILD, "pages");

/** For what loads a model in Chromium: beside other work it takes more than a minute. */
export const WAIT = { timeout: 300_000 };

/** What runs Python. */
export function python(): string {
  const named = process.env.EDGEWISE_PYTHON;
  const path = named ?? join(REPOSITORY, ".venv", "bin", "python");
  if (!named && !existsSync(path)) throw new Error(`no ${path}: set EDGEWISE_PYTHON or run make`);
  return path;
}
