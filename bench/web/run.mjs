/**
 * The browser runtime beside transformers.js, in one run.
 *
 *   node bench/web/run.mjs [--bundle FOLDER]… [--peer FOLDER] [--adapter swiftshader|lavapipe]…
 *                          [--program ID] [--rounds N] [--quick] [--json FILE]
 *
 * Prints Markdown. Needs the library (`npm run build:library` in web/) and bundles with WebGPU
 * programs; README.md says how to make them and the peer's folder. Every visit is in a browser of
 * its own; subjects take turns, and in going first.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { runnerImport } from "../../web/node_modules/vite/dist/node/index.js";
import { describe, waitUntilIdle } from "./machine.mjs";
import { markdown, ratios, summary } from "./report.mjs";
import { serve } from "./serve.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = resolve(HERE, "../..");
const MODELS = ["demo-webgpu-q4", "small-webgpu-q4"];
const PEER = { name: "transformers.js", adapter: "swiftshader", model: "small" };
const CODE = new Set([".js", ".mjs", ".wasm"]);
const IDLE_WAIT = 20; // seconds
const FULL = {
  promptTokens: 128,
  answerTokens: 33,
  burstTokens: 65, // a burst grows from one step, so long ones need a longer answer
  bursts: [1, 4, 8, 16],
};
const QUICK = { promptTokens: 32, answerTokens: 9, burstTokens: 9, bursts: [8] };

const { values: args } = parseArgs({
  options: {
    bundle: { type: "string", multiple: true },
    peer: { type: "string" },
    adapter: { type: "string", multiple: true, default: ["swiftshader"] },
    program: { type: "string" },
    rounds: { type: "string", default: "3" },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const rounds = args.quick ? 1 : Number(args.rounds);
const speeds = args.quick ? QUICK : FULL;

// The browsers are those of the tests, whose TypeScript this Node may not read by itself.
const LAUNCH = join(ROOT, "web/tests/browser/launch.ts");
const { launch } = (await runnerImport(LAUNCH, { configFile: false, logLevel: "error" })).module;

/** What is measured: a page, what it is asked for, and the folders that it may read. */
function subjects() {
  const bundles = args.bundle ?? MODELS.map((name) => join(ROOT, "build/bench", name));
  const ours = bundles.flatMap((bundle) =>
    args.adapter.map((adapter) => ({
      name: basename(resolve(bundle)),
      adapter,
      page: "ours.html",
      target: "/bundle/",
      folders: { "/library/": join(ROOT, "web/dist"), "/bundle/": resolve(bundle), "/": HERE },
    })),
  );
  if (!args.peer) return ours;
  const folders = { "/peer/": resolve(args.peer), "/": HERE };
  return [...ours, { ...PEER, page: "peer.html", target: PEER.model, folders }];
}

/** A browser of its own: a page that loads and is timed, then one that finds what was kept. */
async function visit({ adapter, page, target, folders }) {
  const idleBefore = await waitUntilIdle(args.quick ? 0 : IDLE_WAIT);
  const host = await serve(folders);
  const browser = await launch(adapter);
  try {
    const inTab = async (speeds) => {
      const tab = await browser.context.newPage();
      tab.on("pageerror", (error) => console.error(String(error)));
      await tab.goto(`${host.url}/${page}`);
      await tab.waitForFunction(() => "measure" in globalThis);
      const call = ([target, options]) => globalThis.measure(target, options);
      const found = await tab.evaluate(call, [target, { program: args.program, speeds }]);
      const agent = await tab.evaluate(() => navigator.userAgent);
      await tab.close();
      return { ...found, agent };
    };
    const cold = await inTab(speeds);
    return { idleBefore, cold, warm: await inTab(null), code: code(host.files) };
  } finally {
    await browser.close();
    host.close();
  }
}

/** Bytes of the code that a page fetched, its own aside, as it is and gzipped. */
function code(files) {
  const names = [...files].filter((file) => CODE.has(extname(file)) && dirname(file) !== HERE);
  const texts = names.map((name) => readFileSync(name));
  const total = (sizes) => sizes.reduce((a, b) => a + b, 0);
  return {
    files: names.map((name) => basename(name)),
    bytes: total(texts.map((text) => text.length)),
    gzipped: total(texts.map((text) => gzipSync(text).length)),
  };
}

const measured = subjects().map((subject) => ({ subject, visits: [] }));
for (let round = 0; round < rounds; round++) {
  const order = round % 2 ? measured.toReversed() : measured;
  for (const { subject, visits } of order) {
    console.error(`round ${round + 1}: ${subject.name} on ${subject.adapter}`);
    visits.push(await visit(subject));
  }
}

const found = measured.map(({ subject: { name, adapter }, visits }) => ({
  name,
  adapter,
  summary: summary(visits),
  visits,
}));
const peer = found.find(({ name }) => name === PEER.name);
const same = found.find(
  ({ name, adapter }) => name.startsWith(PEER.model) && adapter === PEER.adapter,
);
const compared = peer &&
  same && {
    ours: same.summary,
    peer: peer.summary,
    ratios: ratios(same.summary, peer.summary),
  };
const result = { machine: describe(), speeds, subjects: found, compared: compared ?? null };
console.log(markdown(result));
if (args.json) writeFileSync(args.json, `${JSON.stringify(result, null, 1)}\n`);
