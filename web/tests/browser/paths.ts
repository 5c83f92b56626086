/** Where the browser tests keep what they make. */
import { join, resolve } from "node:path";

export const REPOSITORY = resolve(import.meta.dirname, "../../..");

export const BUILD = join(REPOSITORY, "build", "browser");

/** The tests' own pages, built by global-setup.ts. */
export const PAGES = join(BUILD, "pages");

/** For what loads a model in Chromium: beside other work it takes more than a minute. */
export const WAIT = { timeout: 300_000 };

/** The full counts, which `make test-full` asks for; else a sample of them. */
export const FULL = Boolean(process.env.EDGEWISE_FULL);
