/** What a stranger can give to a tab: valid files, how they are changed, and what reads them. */

import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { defaultsFrom } from "../../engine/model-defaults.ts";
import { samplingParams } from "../../engine/sampling.ts";
import { ChatTemplate } from "../../engine/template.ts";
import { thinkingOf } from "../../engine/thinking.ts";
import { Tokenizer } from "../../engine/tokenizer.ts";
import { parseManifest } from "../../format/manifest-reader.ts";
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
    seeds: KINDS.map((kind) => fileOf(`${TOKENIZERS}/${kind}/tokenizer.json`)),
    mutate: asJson("ByteLevel", "Sequence", "Replace", "Regex", "String", "(a*)*b", "▁"),
    use: useTokenizer,
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
