import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const WEB = join(import.meta.dirname, "../..");
/** What a page may cost before any model: bytes of code, gzipped. */
const MOST_CODE = 120_000;
/** What another library's words may cost besides the engine's: bytes with all that they import, gzipped. */
const MOST_WORDS = 14_000;

let project: string;
let installed: string;

const PAGE = `import { EdgewiseError, Engine, type Completion, type LoadProgress } from "edgewise";

export async function ask(url: string): Promise<Completion> {
  const onProgress = ({ phase, done, total }: LoadProgress) => console.log(phase, done / total);
  const engine = await Engine.load(url, { onProgress });
  const answer = engine.chat([{ role: "user", content: "Hello" }], { maxTokens: 5, seed: 7n });
  for await (const text of answer) document.body.append(text);
  return answer.completion;
}

const button = document.createElement("button");
button.onclick = () => ask("/bundles/demo-q4/").catch((error: unknown) => {
  if (error instanceof EdgewiseError) document.body.append(error.code, error.remedy);
});
// @ts-expect-error the types know what there is
export const wrong = Engine.load(7);
`;

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), "edgewise-package-"));
  execFileSync("npm", ["run", "--silent", "build:library"], {
    cwd: WEB,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", project], {
    cwd: WEB,
    encoding: "utf8",
  }).trim();
  installed = join(project, "node_modules", "edgewise");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(project, packed), "--strip-components=1", "-C", installed]);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

/** What comes with a model, or where somebody asks for it. */
const WAITING =
  /^(?:ai-sdk|host|openai|prompt-api|(?:asking|constraints|drafting|kept-pages|thoughts|timing|trace)-.*)\.js$/;

/** TypeScript in a page of the documentation. */
const TYPESCRIPT = /^```ts\n(.*?)^```$/gms;

/** The pages that people read, as texts. */
function pages(): string[] {
  const docs = join(WEB, "../docs");
  const names = readdirSync(docs).filter((name) => name.endsWith(".md"));
  const files = [join(WEB, "README.md"), join(WEB, "../README.md")];
  return [...files, ...names.map((name) => join(docs, name))].map((file) =>
    readFileSync(file, "utf8"),
  );
}

/** What the compiler says of a strict project of these files, by name: nothing where all is well. */
function complaints(files: Readonly<Record<string, string>>, more: object = {}): string {
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "es2022",
    module: "esnext",
    moduleResolution: "bundler",
    lib: ["es2022", "dom"],
    types: [],
    ...more,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text);
  const config = JSON.stringify({ compilerOptions, files: Object.keys(files) });
  writeFileSync(join(project, "tsconfig.json"), config);
  const tsc = join(WEB, "node_modules/.bin/tsc");
  return spawnSync(tsc, ["--project", project], { encoding: "utf8" }).stdout;
}

/** A script and all that it imports before it runs. */
function imported(folder: string, name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  const code = readFileSync(join(folder, name), "utf8");
  for (const [, other] of code.matchAll(/\b(?:from|import)\s*"\.\/([^"]+)"/g)) {
    if (other) imported(folder, other, found);
  }
  return found;
}

/** Its scripts, but those that only `edgewise/host` needs. */
function codeOf(folder: string): Buffer[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".js") && !WAITING.test(name));
  return names.map((name) => readFileSync(join(folder, name)));
}

describe("the npm package", () => {
  it("holds the library, its worker, types, a README and the licence, and nothing else", () => {
    const found = readdirSync(installed).sort();
    expect(found).toEqual(["LICENSE", "README.md", "dist", "package.json"]);
    const files = readdirSync(join(installed, "dist"));
    expect(files).toEqual(expect.arrayContaining(["index.js", "types", "worker.js"]));
    expect(files.every((name) => /\.js(\.map)?$|^types$/.test(name))).toBe(true);
  });

  it("is at most 120 KB of code, gzipped", () => {
    const needed = codeOf(join(installed, "dist"));
    const gzipped = needed.map((text) => gzipSync(text).length);
    expect(gzipped.reduce((a, b) => a + b)).toBeLessThan(MOST_CODE);
  });

  it.each(["ai-sdk", "openai", "prompt-api"])(
    "has %s as words alone: a page without a model downloads no engine",
    (name) => {
      const folder = join(installed, "dist");
      const needed = [...imported(folder, `${name}.js`)];
      const bytes = needed.map((file) => gzipSync(readFileSync(join(folder, file))).length);
      expect(needed).not.toContain("worker.js");
      expect(bytes.reduce((a, b) => a + b)).toBeLessThan(MOST_WORDS);
    },
  );

  it("can be imported where there is no page, as bundlers and servers do", () => {
    const script = 'const { Engine } = await import("edgewise"); console.log(typeof Engine.load);';
    const said = execFileSync("node", ["--input-type=module", "--eval", script], {
      cwd: project,
      encoding: "utf8",
    });
    expect(said.trim()).toBe("function");
  });

  it("has types that a strict project compiles against", () => {
    expect(complaints({ "page.ts": PAGE })).toBe("");
  });

  it("has the types that the pages show", () => {
    const shown = pages().flatMap((page) => [...page.matchAll(TYPESCRIPT)].map(([, code]) => code));
    expect(shown.length).toBeGreaterThan(1);
    // Who asks for the provider of the AI SDK has the SDK.
    for (const name of ["ai", "@ai-sdk"]) {
      symlinkSync(join(WEB, "node_modules", name), join(project, "node_modules", name));
    }
    const files = shown.map((code, index) => [`shown-${index}.ts`, code ?? ""]);
    // The SDK's own types ask for Node's.
    expect(complaints(Object.fromEntries(files), { skipLibCheck: true })).toBe("");
  });

  it("has the types that the examples use", () => {
    const examples = join(WEB, "../examples/web");
    const preact = join(WEB, "node_modules/preact");
    const files = ["use-answer.tsx", "vite/src/main.ts"].map(
      (name) => [name.replaceAll("/", "-"), readFileSync(join(examples, name), "utf8")] as const,
    );
    const paths = {
      react: [join(preact, "compat/src/index.d.ts")],
      "react/jsx-runtime": [join(preact, "jsx-runtime/src/index.d.ts")],
    };
    const more = { jsx: "react-jsx", paths, skipLibCheck: true };
    expect(complaints(Object.fromEntries(files), more)).toBe("");
  });

  it("is bundled with its worker by a bundler that knows workers", async () => {
    writeFileSync(join(project, "page.ts"), PAGE);
    writeFileSync(join(project, "index.html"), '<script type="module" src="/page.ts"></script>');
    symlinkSync(join(WEB, "node_modules", "vite"), join(project, "node_modules", "vite"));
    await build({ root: project, configFile: false, logLevel: "error", worker: { format: "es" } });
    const made = readdirSync(join(project, "dist", "assets"));
    expect(made.filter((name) => /^worker-.*\.js$/.test(name))).toHaveLength(1);
  });
});
