/**
 * Whatever is wrong with a file, reading it in a tab ends, in bounds, with what it holds or in
 * words; what tests/fuzz holds the Python readers to.
 */

import { spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FULL } from "../suite.ts";
import { FORMATS } from "./formats.ts";

const ROOT = join(import.meta.dirname, "../../..");
const [SEED, COUNT] = FULL ? [2, 100_000] : [1, 500];
/** Milliseconds after which a child that is still at the same case hangs, however busy the machine. */
const STALL_MS = 30_000;
/** In which all cases are tried, and hangs found. */
const WHOLE_MS = FULL ? 7_200_000 : 600_000;
const MEMORY = "--max-old-space-size=1024";
const MAX_DEATHS = 5;

let place: string;

beforeAll(async () => {
  mkdirSync(join(ROOT, "build"), { recursive: true });
  place = mkdtempSync(join(tmpdir(), "edgewise-fuzz-"));
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { noExternal: true },
    build: {
      ssr: join(import.meta.dirname, "child.ts"),
      outDir: place,
      target: "node20",
      rollupOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
});
afterAll(() => rmSync(place, { recursive: true, force: true }));

interface Report {
  readonly done: number;
  readonly refused: number;
  readonly findings: readonly string[];
}

/** Try cases; where a child dies, the next one goes on after the case in progress. */
async function campaign(name: string): Promise<Report> {
  const folder = mkdtempSync(join(place, `${name}-`));
  const findings: string[] = [];
  let [first, done, refused] = [0, 0, 0];
  for (let deaths = 0; deaths < MAX_DEATHS; deaths++) {
    const said = await tried(folder, [name, SEED, first, COUNT - first, folder].map(String));
    const { number, ...counts } = progressOf(folder) ?? { number: Number.NaN, done: 0, refused: 0 };
    if (Number.isNaN(number)) throw new Error(`the child does not start: ${said}`);
    [done, refused] = [done + counts.done, refused + counts.refused];
    if (number < 0) break;
    const kept = join(ROOT, "build", `fuzz-${name}-${SEED}-${number}`);
    copyFileSync(join(folder, "case"), kept);
    findings.push(`case ${number}, kept as ${kept}: ${said}`);
    first = number + 1;
  }
  const lines = existsSync(join(folder, "findings"))
    ? readFileSync(join(folder, "findings"), "utf8").trim().split("\n")
    : [];
  return { done, refused, findings: [...findings, ...lines] };
}

/** Run a child; how it ended, and what it said. One that stays at a case is ended. */
function tried(folder: string, words: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [MEMORY, join(place, "child.mjs"), ...words], {
    cwd: ROOT,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let [said, before] = ["", -1];
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const watch = setInterval(() => {
    const now = progressOf(folder)?.number ?? -1;
    if (now >= 0 && now === before) child.kill("SIGKILL");
    before = now;
  }, STALL_MS);
  return new Promise((settle) => {
    child.on("close", (code, signal) => {
      clearInterval(watch);
      settle(`ended by ${signal ?? code}: ${said.slice(0, 2000)}`);
    });
  });
}

function progressOf(folder: string): { number: number; done: number; refused: number } | null {
  const path = join(folder, "progress");
  const words = existsSync(path) ? readFileSync(path, "utf8").trim() : "";
  if (words === "") return null;
  const [number = -1, done = 0, refused = 0] = words.split(" ").map(Number);
  return { number, done, refused };
}

test.each(Object.keys(FORMATS))(
  "hostile files are read or refused: %s",
  async (name) => {
    const report = await campaign(name);
    expect(report.findings).toEqual([]);
    expect(report.done).toBe(COUNT);
    expect(report.refused).toBeGreaterThan(0);
    expect(report.refused).toBeLessThan(COUNT);
  },
  WHOLE_MS,
);
