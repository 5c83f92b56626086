/** Pyodide with our wheel in it: in Node and, from files below /test/, in a page. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { loadPyodide, type PyodideAPI } from "pyodide";
import { BUILD, PAGES, python, REPOSITORY } from "./paths.ts";

/** The wheel of clients/pyodide, built as pip would. */
export function buildWheel(): string {
  const folder = join(BUILD, "pyodide");
  rmSync(folder, { recursive: true, force: true });
  const build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", folder];
  execFileSync(python(), build, {
    cwd: join(REPOSITORY, "clients", "pyodide"),
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [wheel, ...others] = readdirSync(folder);
  if (wheel === undefined || others.length > 0) throw new Error(`not one wheel in ${folder}`);
  return join(folder, wheel);
}

/** A Python of its own in this process. */
export async function pythonInNode(wheel: string): Promise<PyodideAPI> {
  const pyodide = await loadPyodide();
  pyodide.unpackArchive(new Uint8Array(readFileSync(wheel)), "wheel");
  return pyodide;
}

/** Puts Pyodide and the wheel where pages find them: /test/pyodide/ and edgewise.whl in it. */
export function servePyodide(wheel: string): void {
  const folder = join(PAGES, "pyodide");
  mkdirSync(folder, { recursive: true });
  const installed = join(REPOSITORY, "web", "node_modules", "pyodide");
  const files = ["pyodide.js", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"];
  for (const file of [...files, "pyodide-lock.json"])
    cpSync(join(installed, file), join(folder, file));
  cpSync(wheel, join(folder, "edgewise.whl"));
}
