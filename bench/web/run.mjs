/**
 * The browser runtime beside transformers.js, in one run.
 *
 *   node bench/web/run.mjs [--bundle FOLDER]… [--peer FOLDER] [--adapter swiftshader|lavapipe]…
 *                          [--program ID] [--rounds N] [--quick] [--json FILE]
 *
 * Prints Markdown. Needs the library (`npm run build:library` in web/) and bundles with WebGPU programs;
 * README.md says how to make the peer's folder. Every load is in a browser of its own.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { runnerImport } from "../../web/node_modules/vite/dist/node/index.js";
import { serve } from "./serve.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(HERE, "../..");
const DEFAULT = ["demo-webgpu-q4", "small-webgpu-q4"].map((name) => join(ROOT, "build/bench", name));
const BURSTS = [1, 4, 8, 16];
const PEER_MODEL = "small";

// The browsers are those of the tests, whose TypeScript this Node may not read by itself.
const LAUNCH = join(ROOT, "web/tests/browser/launch.ts");
const { launch } = (await runnerImport(LAUNCH, { configFile: false, logLevel: "error" })).module;

const { values: args } = parseArgs({
  options: {
    bundle: { type: "string", multiple: true },
    peer: { type: "string" },
    adapter: { type: "string", multiple: true },
    program: { type: "string" },
    rounds: { type: "string", default: "3" },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
});

const effort = {
  program: args.program,
  bursts: args.quick ? [8] : BURSTS,
  rounds: args.quick ? 1 : Number(args.rounds),
  promptTokens: args.quick ? 32 : 128,
  answerTokens: args.quick ? 9 : 33,
};

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Bytes of the library's code, as it is and gzipped. */
function code() {
  const folder = join(ROOT, "web/dist");
  const files = readdirSync(folder).filter((name) => name.endsWith(".js"));
  const texts = files.map((name) => readFileSync(join(folder, name)));
  const total = (sizes) => sizes.reduce((a, b) => a + b, 0);
  return {
    bytes: total(texts.map((text) => text.length)),
    gzipped: total(texts.map((text) => gzipSync(text).length)),
  };
}

/** Call a page's `measure` in a browser of its own; twice, the second time with what was kept. */
async function inBrowser(adapter, page, target, host, times) {
  const browser = await launch(adapter);
  const found = [];
  try {
    for (let i = 0; i < times; i++) {
      const tab = await browser.context.newPage();
      tab.on("pageerror", (error) => console.error(String(error)));
      await tab.goto(`${host.url}/${page}`);
      await tab.waitForFunction(() => "measure" in globalThis);
      const asked = i === 0 ? effort : { ...effort, rounds: 0, bursts: [] };
      const call = ({ target, asked }) => globalThis.measure(target, asked);
      found.push(await tab.evaluate(call, { target, asked }));
      await tab.close();
    }
  } finally {
    await browser.close();
  }
  return found;
}

function row(name, adapter, result, warm) {
  const speeds = Object.entries(result.decode).map(([k, all]) => `k=${k}: ${median(all).toFixed(2)}`);
  return [
    name,
    adapter,
    result.program ?? "",
    median(result.prefill).toFixed(1),
    speeds.join(", "),
    (result.loadMs / 1000).toFixed(1),
    warm ? (warm.loadMs / 1000).toFixed(1) : "",
    (result.firstTokenMs / 1000).toFixed(1),
  ];
}

const table = [
  "model|adapter|program|prefill tok/s|decode tok/s|cold load s|warm load s|page to first token s".split("|"),
];
const results = { code: code(), ours: [], peer: null, ratios: null };
const adapters = args.adapter ?? ["swiftshader"];
const bundles = args.bundle ?? DEFAULT;

for (const adapter of adapters) {
  for (const bundle of bundles) {
    const name = basename(bundle);
    console.error(`measuring ${name} on ${adapter}`);
    const folders = { "/library/": join(ROOT, "web/dist"), "/bundle/": resolve(bundle), "/": HERE };
    const host = await serve(folders);
    const [cold, warm] = await inBrowser(adapter, "ours.html", "/bundle/", host, 2);
    host.close();
    table.push(row(name, adapter, cold, warm));
    results.ours.push({ name, adapter, cold, warm });
  }
}

if (args.peer) {
  console.error("measuring transformers.js on swiftshader");
  const host = await serve({ "/peer/": resolve(args.peer), "/": HERE });
  const [cold] = await inBrowser("swiftshader", "peer.html", PEER_MODEL, host, 1);
  host.close();
  table.push(row("transformers.js, the same 41M model", "swiftshader", cold, null));
  results.peer = cold;
  const same = results.ours.find((one) => /small/.test(one.name) && one.adapter === "swiftshader");
  if (same) {
    const decode = Math.max(...Object.values(same.cold.decode).map(median));
    results.ratios = {
      decode: decode / median(cold.decode[1]),
      prefill: median(same.cold.prefill) / median(cold.prefill),
      firstToken: cold.firstTokenMs / same.cold.firstTokenMs,
    };
  }
}

const [head, ...rows] = table;
console.log(`| ${head.join(" | ")} |\n|${head.map(() => "---").join("|")}|`);
for (const cells of rows) console.log(`| ${cells.join(" | ")} |`);
const { bytes, gzipped } = results.code;
console.log(`\nThe library is ${(bytes / 1e3).toFixed(0)} KB of code, ${(gzipped / 1e3).toFixed(0)} KB gzipped.`);
if (results.ratios) {
  const { decode, prefill, firstToken } = results.ratios;
  console.log(
    `Against transformers.js: decode ${decode.toFixed(1)}×, prefill ${prefill.toFixed(1)}×, ` +
      `first token ${firstToken.toFixed(1)}× as soon.`,
  );
}
if (args.json) writeFileSync(args.json, `${JSON.stringify(results, null, 1)}\n`);
