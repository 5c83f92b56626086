/**
 * A prompt's first token on a first visit: computed, and from the bundle's pack.
 *
 *   node bench/web/packs.mjs BUNDLE [--pack NAME] [--adapter swiftshader|lavapipe] [--program ID]
 *                            [--rounds N] [--json FILE]
 *
 * Prints Markdown. BUNDLE has a pack for WebGPU (`edgewise prefix`), and the library is built (`npm run
 * build:library` in web/). The prompt is the pack's tokens and a few more. Every visit is in a browser of
 * its own.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runnerImport } from "../../web/node_modules/vite/dist/node/index.js";
import { describe, waitUntilIdle } from "./machine.mjs";
import { prompt } from "./prompt.mjs";
import { median } from "./report.mjs";
import { serve } from "./serve.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(HERE, "../..");
const IDLE_WAIT = 20; // seconds
/** Tokens that follow the pack's. */
const MORE = 24;
/** Where a page's file has its token ids, after what it says of itself and how many are exact. */
const IDS_AT = 112 + 4;
/** What is measured: `prefixPacks`, and whether it is the second page of its browser. */
const WAYS = [
  { name: "computed", packs: false, again: false },
  { name: "from the pack", packs: "always", again: false },
  { name: "as the engine chooses", packs: true, again: false },
  { name: "from the pack, second visit", packs: "always", again: true },
];

const { values: args, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    pack: { type: "string" },
    adapter: { type: "string", default: "swiftshader" },
    program: { type: "string" },
    rounds: { type: "string", default: "3" },
    json: { type: "string" },
  },
});
const bundle = resolve(positionals[0] ?? "dist/demo-q4");

// The browsers are those of the tests, whose TypeScript this Node may not read by itself.
const LAUNCH = join(ROOT, "web/tests/browser/launch.ts");
const { launch } = (await runnerImport(LAUNCH, { configFile: false, logLevel: "error" })).module;

/** A pack of the bundle: its token ids, which all programs' pages have alike, and bytes of its files. */
function packOf() {
  const places = readdirSync(join(bundle, "prefixes")).filter((name) => name.startsWith("webgpu-"));
  for (const place of places) {
    const folder = join(bundle, "prefixes", place);
    const index = JSON.parse(readFileSync(join(folder, "index.json"), "utf8"));
    const pack = index.packs.find(({ name }) => name === (args.pack ?? name));
    if (!pack) continue;
    const tokens = pack.keys.flatMap((key) => {
      const page = readFileSync(join(folder, `${key}.kv`));
      return Array.from({ length: index.page_tokens }, (_, n) => page.readUInt32LE(IDS_AT + 4 * n));
    });
    return { name: pack.name, tokens, bytes: pack.keys.length * index.file_bytes };
  }
  throw new Error(
    `${bundle} has no pack ${args.pack ?? ""} for WebGPU: edgewise prefix makes one.`,
  );
}

async function visit({ packs, again }, tokens) {
  const idleBefore = await waitUntilIdle(IDLE_WAIT);
  const folders = { "/library/": join(ROOT, "web/dist"), "/bundle/": bundle, "/": HERE };
  const host = await serve(folders);
  const browser = await launch(args.adapter);
  try {
    const inTab = async () => {
      const tab = await browser.context.newPage();
      tab.on("pageerror", (error) => console.error(String(error)));
      await tab.goto(`${host.url}/packs.html`);
      await tab.waitForFunction(() => "measure" in globalThis);
      const call = ([target, options]) => globalThis.measure(target, options);
      const options = { program: args.program, packs, tokens };
      const found = await tab.evaluate(call, ["/bundle/", options]);
      await tab.close();
      return found;
    };
    if (again) await inTab();
    return { idleBefore, ...(await inTab()) };
  } finally {
    await browser.close();
    host.close();
  }
}

const pack = packOf();
const tokens = [...pack.tokens, ...prompt(MORE, 1)];
const visits = new Map(WAYS.map(({ name }) => [name, []]));
for (let round = 0; round < Number(args.rounds); round++) {
  for (const way of round % 2 ? WAYS.toReversed() : WAYS) {
    console.error(`round ${round + 1}: ${way.name}`);
    visits.get(way.name).push(await visit(way, tokens));
  }
}

const [[computed]] = visits.values();
const machine = describe();
console.log(`${basename(bundle)}, ${computed.program} on ${args.adapter}, ${machine.cpu}`);
console.log(
  `pack ${pack.name}: ${pack.tokens.length} tokens, ${pack.bytes} bytes; prompt: ${tokens.length}\n`,
);
console.log("| | first token, ms | load, ms | tokens of the pack | same answer |");
console.log("|---|---|---|---|---|");
for (const [name, found] of visits) {
  const middle = (value) => median(found.map(value)).toFixed(0);
  const same = found.every(({ tokenIds }) => `${tokenIds}` === `${computed.tokenIds}`);
  const cells = [name, middle((one) => one.ttftMs), middle((one) => one.loadMs)];
  const ofBundle = [...new Set(found.map((one) => one.ofBundle))].join(", ");
  console.log(`| ${[...cells, ofBundle, same ? "yes" : "no"].join(" | ")} |`);
}
const idle = Math.min(...[...visits.values()].flat().map(({ idleBefore }) => idleBefore));
console.log(`\nIdle before a visit, at least: ${(100 * idle).toFixed(0)}%`);
const result = { machine, pack: { ...pack, tokens: pack.tokens.length }, visits: [...visits] };
if (args.json) writeFileSync(args.json, `${JSON.stringify(result, null, 1)}\n`);
