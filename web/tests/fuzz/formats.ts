/** What a stranger can give to a tab: valid files, how they are changed, and what reads them. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { imported } from "../../chat/import.ts";
import { defaultsFrom } from "../../engine/model-defaults.ts";
import { samplingParams } from "../../engine/sampling.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { thinkingOf } from "../../engine/thinking.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { parseManifest } from "../../format/manifest-reader.ts";
import { filesOf, pagePath, parseIndex } from "../../format/packs.ts";
import { parsePlan } from "../../format/plan-reader.ts";
import { checkProgram } from "../../format/program-checks.ts";
import { parseProof } from "../../format/proof.ts";
import { pagedState } from "../../format/state.ts";
import type { Random } from "../engine/random.ts";
import { grammarTexts, mutateGrammar, useGrammar } from "./grammars.ts";
import { changed, damaged, flipped, written } from "./mutate.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A file that is read in a tab. */
export interface Format {
  readonly seeds: readonly Bytes[];
  /** A hostile file from a valid one. */
  readonly mutate: (rng: Random, seed: Bytes) => Bytes;
  /** Reads it as a tab does. Any error but an EdgewiseError is a fault. */
  readonly use: (data: Bytes) => Promise<void> | void;
}

/** The repository's root; a child runs there. */
const GOLDENS = "tests/format/goldens";
const TOKENIZERS = "tests/runtime/text/goldens";
const PLANS = `${GOLDENS}/programs/webgpu-f32/plans`;
const KINDS = ["byte_fallback", "one_digit", "prefix_space", "three_digits"];
const TEXT = "Hello wörld, it's 12345 <s> 日本🙂<|im_end|>  \n\t don't";

const fileOf = (path: string): Bytes => Uint8Array.from(readFileSync(path));
const jsonOf = (data: Bytes): unknown => JSON.parse(new TextDecoder().decode(data));
const encode = (text: string): Bytes => Uint8Array.from(new TextEncoder().encode(text));

const asJson =
  (...strings: string[]) =>
  (rng: Random, seed: Bytes): Bytes =>
    written(rng, changed(rng, jsonOf(seed), strings));

/** A changed manifest under a digest of its own, or one of which some bytes are others. */
function mutateManifest(rng: Random, seed: Bytes): Bytes {
  if (rng.chance(0.2)) return flipped(rng, seed);
  const rest = written(rng, changed(rng, { ...withoutDigest(seed) })).slice(1);
  const digest = createHash("sha256").update(rest).digest("hex");
  return encode(`{"digest":"${digest}",${new TextDecoder().decode(rest)}`);
}

function withoutDigest(seed: Bytes): object {
  const value = jsonOf(seed);
  if (typeof value !== "object" || value === null) throw new TypeError("no manifest");
  return Object.fromEntries(Object.entries(value).filter(([key]) => key !== "digest"));
}

async function useManifest(data: Bytes): Promise<void> {
  const manifest = await parseManifest(data);
  pagedState(manifest);
  const program = manifest.programs.find(({ target }) => target === "webgpu");
  const plans = [...(program?.plans ?? [])].filter(([, path]) => existsSync(`${GOLDENS}/${path}`));
  if (program && plans.length === program.plans.size) {
    checkProgram(manifest, program, new Map(plans.map(([name, path]) => [name, planOf(path)])));
  }
}

const planOf = (path: string) => parsePlan(fileOf(`${GOLDENS}/${path}`));

const TEMPLATE_WORDS = [
  ...[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "(",
    ")",
    "[",
    "]",
    "|",
    "~",
    "+",
    "*",
    "**",
    "%",
    "is ",
    "not ",
  ],
  ...["{% for m in messages %}", "{% endfor %}", "{% if x %}", "{% endif %}", "{% else %}", "{{ ("],
  ...["{% for i in range(99999) %}", "{% for i in range(10**9) %}", "{{ 10**(10**9) }}", "{{ -"],
  ...["{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{% set x = x ~ x %}", "{{ loop }}"],
  ...["{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", "{{ namespace(a=1) }}"],
  ...["{{ messages | tojson(indent=100000000) }}", "{{ 'x' | indent(100000000) }}", "{% break %}"],
  ...["{{ 'a' | replace('', 'b') | join('c') }}", "{{ range(99999) | join(range(99999) | join) }}"],
  ...["{{ x.constructor }}", "{{ ''.__proto__ }}", "{{ messages.map }}", "{{ dict(a=1) }}"],
];
const MESSAGES = [
  [{ role: "user", content: "Hello" }],
  [
    { role: "system", content: "Be kind." },
    { role: "user", content: "q" },
    { role: "assistant", content: "<think>\nhm\n</think>\n\nanswer" },
    { role: "user", content: "again 日本 😀" },
  ],
];

function useTemplate(data: Bytes): void {
  const special = new Map([
    ["bos_token", "<s>"],
    ["eos_token", "</s>"],
  ]);
  const template = ChatTemplate.fromFiles(data, null, special);
  if (!template) return;
  thinkingOf(template);
  for (const messages of MESSAGES) template.render(messages);
}

function useTokenizer(data: Bytes): void {
  const tokenizer = Tokenizer.fromFiles(data, null);
  const ids = tokenizer.encode(TEXT);
  tokenizer.encode(TEXT, false);
  const text = tokenizer.decode(ids, true);
  const stream = tokenizer.stream();
  const streamed = ids.map((id) => stream.push([id])).join("") + stream.finish();
  if (streamed !== text) throw new RangeError(`${streamed} id by id, and ${text} at once`);
}

/** Those of tests/text: of every kind of model, with steps of every kind. */
function trainedTokenizers(): Bytes[] {
  const cases = jsonOf(fileOf("tests/text/trained.json"));
  const listed = typeof cases === "object" && cases && "tokenizers" in cases && cases.tokenizers;
  const found = Array.isArray(listed) ? listed : [];
  return found.map((each: { readonly tokenizer: unknown }) =>
    encode(JSON.stringify(each.tokenizer)),
  );
}

const STEPS = [
  ...[
    "ByteLevel",
    "Sequence",
    "Replace",
    "Precompiled",
    "BertNormalizer",
    "Metaspace",
    "WordPiece",
  ],
  ...["Unigram", "Whitespace", "Split", "BPEDecoder", "MergedWithNext", "first"],
];

const templates = (): Bytes[] => {
  const cases = jsonOf(fileOf("tests/text/templates.json"));
  const named = typeof cases === "object" && cases && "templates" in cases && cases.templates;
  return Object.values(named || {}).map((source) => encode(String(source)));
};
const proof = {
  tokens: [1, 2],
  ids: [0, 5],
  logits: [
    [1, -2],
    [3, 4],
  ],
};
const generation = {
  temperature: 0.7,
  top_k: 40,
  top_p: 0.95,
  do_sample: true,
  suppress_tokens: [5],
  bad_words_ids: [[1], [2, 3]],
  stop_strings: ["a"],
};

interface Indices {
  readonly place: string;
  readonly sizes: Readonly<Record<string, number>>;
  readonly cases: readonly { readonly code: string | null; readonly index: unknown }[];
}

/** Indices of packs, with windows and without, whose pages are those that the bundle has. */
function packs(): Format {
  const known = ["pack-indices", "pack-indices-windows"].map(
    (name) => jsonOf(fileOf(`tests/format/${name}.json`)) as Indices,
  );
  const place = known[0]?.place ?? "";
  const listed = known.flatMap(({ sizes }) =>
    Object.entries(sizes).map(
      ([path, bytes]) => [`${place}${path.slice(path.lastIndexOf("/"))}`, bytes] as const,
    ),
  );
  const files = new Map(listed.map(([path, bytes]) => [path, { bytes, sha256: "", chunks: [] }]));
  const use = async (data: Bytes) => {
    const index = await parseIndex(data, place, { files });
    for (const key of await filesOf(index)) {
      if (files.get(pagePath(place, key))?.bytes === index.fileBytes) continue;
      throw new RangeError(`a page that the bundle does not have: ${key}`);
    }
  };
  const good = known.flatMap(({ cases }) => cases.filter(({ code }) => code === null));
  const seeds = good.map(({ index }) => encode(JSON.stringify(index)));
  return { seeds, mutate: asJson(...files.keys(), "webgpu"), use };
}

/** What the chat app takes in: what it saves now, and what its first version kept. */
function conversationFiles(): Bytes[] {
  const counts = { tokens: 3, promptTokens: 4, cachedTokens: 0, context: 64, droppedTurns: 0 };
  const stats = { ttftMs: 1, tokensPerSecond: 2, ...counts, finish: "stop", contextFull: false };
  const files = [{ name: "a.txt", text: "one" }];
  const calls = [{ index: 0, id: "c", name: "add", arguments: "{}", complete: true }];
  const said = { content: "Hi", thought: "hm", thoughtMs: 5, calls, stats };
  const tree = [
    { id: "q", parent: null, role: "user", content: "Hello", files },
    { id: "a", parent: "q", role: "assistant", ...said },
  ];
  const tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };
  const settings = { temperature: 0.5, topK: 3, tools: [tool], variables: { x: 1 } };
  const list = [{ id: "q", role: "user", content: "Hello" }];
  const about = { id: "c", title: "t", updated: 1, system: "" };
  return [
    { version: 2, conversations: [{ ...about, settings, messages: tree, leaf: "a" }] },
    { version: 1, conversations: [{ ...about, settings: {}, messages: list }] },
  ].map((file) => encode(JSON.stringify(file)));
}

export const FORMATS: Readonly<Record<string, () => Format>> = {
  bundle: () => ({
    seeds: [fileOf(`${GOLDENS}/bundle.json`)],
    mutate: mutateManifest,
    use: useManifest,
  }),
  plan: () => ({
    seeds: readdirSync(PLANS).map((name) => fileOf(`${PLANS}/${name}`)),
    mutate: asJson("pages", "n", "b", "x", "kv.0"),
    use: (data) => void parsePlan(data),
  }),
  proof: () => ({
    seeds: [encode(JSON.stringify(proof))],
    mutate: asJson(),
    use: (data) => void parseProof(data, 320),
  }),
  generation_config: () => ({
    seeds: [encode(JSON.stringify(generation))],
    mutate: asJson(),
    use: (data) => void samplingParams(defaultsFrom(data, { vocab: 300, eos: [1] }).defaults),
  }),
  tokenizer: () => ({
    seeds: [
      ...KINDS.map((kind) => fileOf(`${TOKENIZERS}/${kind}/tokenizer.json`)),
      ...trainedTokenizers(),
    ],
    mutate: asJson(...STEPS, "Regex", "String", "(a*)*b", "▁", "##"),
    use: useTokenizer,
  }),
  packs,
  conversations: () => ({
    seeds: conversationFiles(),
    mutate: asJson("user", "assistant", "stop"),
    use: async (data) => void (await imported(new Blob([data]), [])),
  }),
  grammar: () => ({
    seeds: grammarTexts(fileOf).map(encode),
    mutate: (rng, seed) => encode(mutateGrammar(rng, new TextDecoder().decode(seed))),
    use: (data) => useGrammar(new TextDecoder().decode(data)),
  }),
  template: () => ({
    seeds: templates(),
    mutate: (rng, seed) => encode(damaged(rng, new TextDecoder().decode(seed), TEMPLATE_WORDS)),
    use: useTemplate,
  }),
};
