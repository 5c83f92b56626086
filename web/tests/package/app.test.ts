/** What the built chat app weighs, and what of it waits until it is needed. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const WEB = join(import.meta.dirname, "../..");
/** Bytes of scripts and styles, gzipped, without what waits. */
const MOST = 150_000;
/** What waits, by the names of their chunks. */
const WAITING =
  /^(?:advice|asking|attach|attachments|constraints|drafting|export|highlight|import|indexeddb|interrupted|kept-pages|lend|lent|markdown-view|math|measure|message-files|opening|plain|remote|search-hits|settings|thoughts|timing|tool-calls|tools|trace|unfinished)-/;

let built: string;

beforeAll(() => {
  built = mkdtempSync(join(tmpdir(), "edgewise-app-"));
  const options = ["--config", "vite.app.ts", "--outDir", built, "--logLevel", "error"];
  execFileSync("npx", ["vite", "build", ...options], {
    cwd: WEB,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, NODE_ENV: "production" }, // vitest's own would make another build
  });
});
afterAll(() => rmSync(built, { recursive: true, force: true }));

const read = (name: string) => readFileSync(join(built, name), "utf8");
const code = () =>
  readdirSync(built, { recursive: true, encoding: "utf8" }).filter(
    (name) => /\.(?:js|css)$/.test(name) && !/selftest/.test(name),
  );
const waits = (name: string) => WAITING.test(basename(name));

/** Scripts that a page's script loads before it runs, itself included. */
function needed(name: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(name)) return found;
  found.add(name);
  for (const [, from] of read(join("assets", name)).matchAll(/(?:from|import)"\.\/([^"]+)"/g)) {
    if (from) needed(from, found);
  }
  return found;
}

describe("the chat app", () => {
  it("is at most 150 KB of scripts and styles, gzipped, without what waits", () => {
    const sizes = code()
      .filter((name) => !waits(name))
      .map((name) => gzipSync(readFileSync(join(built, name))).length);
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(MOST);
  });

  it("has those in files of their own, which it does not need to begin", () => {
    expect(code().filter(waits).length).toBeGreaterThanOrEqual(4);
    const page = read("chat/index.html");
    const loaded = [...page.matchAll(/(?:src|href)="\/assets\/([^"]+\.(?:js|css))"/g)].flatMap(
      ([, name]) => name ?? [],
    );
    const scripts = loaded.filter((name) => name.endsWith(".js"));
    expect(scripts.length).toBeGreaterThan(0);
    const begun = [...loaded, ...scripts.flatMap((name) => [...needed(name)])];
    expect(begun.filter(waits)).toEqual([]);
  });

  it("keeps them for offline use with the rest", () => {
    const worker = read("sw.js");
    for (const name of code().filter((one) => one !== "sw.js")) {
      expect(worker).toContain(`/${name}`);
    }
  });
});
