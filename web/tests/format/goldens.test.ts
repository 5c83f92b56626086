/** What a compiled bundle says, read as Python reads it. */

import { describe, expect, test } from "vitest";
import { bounds } from "../../format/expr.ts";
import { storedAs } from "../../format/manifest.ts";
import { readManifest } from "../../format/manifest-reader.ts";
import { bufferSizes, checkShared } from "../../format/plan-checks.ts";
import { checkProgram } from "../../format/program-checks.ts";
import { candidates, missing, planFor } from "../../format/programs.ts";
import { codeOf, list, load, named, numbers, table, text } from "./cases.ts";
import { goldenManifest, goldenPlan, goldenPlans, goldenProgram } from "./goldens.ts";

describe("a plan says what Python reads in it:", () => {
  test.each([...table(load("goldens/facts.json"))])("%s", (file, facts) => {
    const plan = goldenPlan(file);
    const ranges = new Map(
      plan.symbols.map(({ name, min, max }) => [name, [min, max] as const] as const),
    );
    for (const pair of list(table(facts).get("sizes"))) {
      const [pages, sizes] = list(pair);
      expect(bufferSizes([plan], new Map([["pages", Number(pages)]]))).toEqual(numbers(sizes));
    }
    expect(plan.steps.map((step) => step.grid.map((extent) => bounds(extent, ranges)))).toEqual(
      table(facts).get("grids"),
    );
    const reach = [...plan.kernels].map(
      ([name, kernel]) => [name, kernel.args.map((arg) => bounds(arg.bytes, ranges))] as const,
    );
    expect(new Map(reach)).toEqual(table(facts).get("kernels"));
  });
});

test("a manifest keeps every number and name of its JSON, in camel case", () => {
  const manifest = goldenManifest();
  const json = table(load("goldens/bundle.json"));
  expect(manifest.name).toBe(json.get("name"));
  expect(manifest.weightsId).toBe(json.get("weights_id"));
  expect(manifest.createdBy).toEqual(json.get("created_by"));
  expect(manifest.model).toEqual({ recipe: null, ...camel(json.get("model")) });
  expect(manifest.stateGroups).toEqual(
    list(json.get("state_groups")).map((group) => ({ scales: [], ...camel(group) })),
  );
  for (const [name, layout] of table(json.get("layouts"))) {
    const tensors = [...table(table(layout).get("tensors"))];
    const expected = tensors.map(([key, tensor]) => [key, camel(tensor)] as const);
    expect(manifest.layouts.get(name)).toEqual(new Map(expected));
  }
  const files = [...table(json.get("files"))];
  expect(manifest.files).toEqual(
    new Map(files.map(([path, file]) => [path, { chunks: [], ...camel(file) }])),
  );
  for (const [i, program] of manifest.programs.entries()) {
    const written = table(list(json.get("programs"))[i]);
    expect(program).toMatchObject({
      id: written.get("id"),
      target: written.get("target"),
      arithmetic: written.get("arithmetic"),
      layout: written.get("layout"),
      library: written.get("library"),
      plans: written.get("plans"),
      shaders: written.get("shaders"),
      stateDtype: written.get("state_dtype"),
      pageBytes: written.get("page_bytes"),
      decodeAgrees: written.get("decode_agrees"),
      signature: null,
      needs: camel(written.get("needs")),
    });
    const entries = [...table(written.get("entries"))];
    expect(program.entries).toEqual(
      new Map(entries.map(([key, found]) => [key, list(found).map(camel)])),
    );
  }
});

test("weights that differ in their schemes are called after their recipe", () => {
  const json = table(load("goldens/bundle.json"));
  table(json.get("model")).set("recipe", "q4-q8.head");
  const { model } = readManifest(json);
  expect([model.quant, model.recipe, storedAs(model)]).toEqual(["q4", "q4-q8.head", "q4-q8.head"]);
  expect(storedAs(goldenManifest().model)).toBe("q4");
});

test("a file of more than 32 MiB keeps the sha256 of every chunk", () => {
  const [a, b] = ["a".repeat(64), "b".repeat(64)];
  const json = table(load("goldens/bundle.json"));
  const file = { bytes: 2 ** 25 + 1, sha256: a, chunks: [a, b] };
  table(json.get("files")).set("params/large", new Map(Object.entries(file)));
  const manifest = readManifest(json);
  expect(manifest.files.get("params/large")?.chunks).toEqual([a, b]);
});

test("a program agrees with its manifest", () => {
  const manifest = goldenManifest();
  const program = goldenProgram(manifest);
  checkProgram(manifest, program, goldenPlans(program));
});

test("a program of int8 state has codes in the buffers of its groups, and words of scales", () => {
  const manifest = goldenManifest();
  // Two layers, four heads of 16: a byte a number, and a word of scales a token and head.
  const pageBytes = [2 * (2 * 4 * 16 * 16 + 4 * 16 * 4)];
  const program = { ...goldenProgram(manifest), stateDtype: "int8" as const, pageBytes };
  const stateGroups = manifest.stateGroups.map((group) => ({
    ...group,
    scales: group.layers.map((layer) => `kv_scale.${layer}`),
  }));
  const plans = (codes: string, scales: string) =>
    new Map(
      [...goldenPlans(program)].map(([name, plan]) => {
        const buffers = plan.buffers.flatMap((buffer) =>
          /^kv\.\d+$/.test(buffer.name)
            ? [
                { ...buffer, dtype: codes },
                {
                  ...buffer,
                  dtype: scales,
                  name: buffer.name.replace("kv", "kv_scale"),
                  shape: ["pages", 4, 16],
                },
              ]
            : [buffer],
        );
        return [name, { ...plan, buffers }] as const;
      }),
    );
  const check = (codes: string, scales: string) => () =>
    checkProgram({ ...manifest, stateGroups }, program, plans(codes, scales));
  expect(codeOf(check("int8", "uint32"))).toBeNull();
  expect(codeOf(check("float32", "uint32"))).toBe("bundle.state");
  expect(codeOf(check("int8", "float16"))).toBe("bundle.state");
});

test("plans agree on what they share, but for the size of scratch", () => {
  const [prefill, decode] = ["prefill", "decode"].map((name) =>
    goldenPlan(`sample/plans/${name}.json`),
  );
  if (!prefill || !decode) throw new RangeError("two plans");
  checkShared([prefill, decode]);
  const narrow = decode.buffers.map((buffer) =>
    buffer.name === "x" ? { ...buffer, shape: [32] } : buffer,
  );
  const fewer = decode.symbols.map((symbol) => ({ ...symbol, max: 2 }));
  expect(codeOf(() => checkShared([prefill, { ...decode, buffers: narrow }]))).toBe("plan.shared");
  expect(codeOf(() => checkShared([prefill, { ...decode, symbols: fewer }]))).toBe("plan.shared");
});

test("sizes need a value for each load symbol, whole and in its range", () => {
  const plan = goldenPlan("sample/plans/prefill.json");
  const sizes = (pages?: number) => () =>
    bufferSizes([plan], new Map(pages === undefined ? [] : [["pages", pages]]));
  expect(codeOf(sizes(7))).toBeNull();
  expect(codeOf(sizes())).toBe("plan.symbol");
  for (const pages of [0, 2 ** 22 + 1, 1.5, Number.NaN]) {
    expect(codeOf(sizes(pages))).toBe("plan.range");
  }
});

describe("programs are preferred by", () => {
  test.each(named(table(load("programs.json")).get("candidates")))("%s", (_, item) => {
    const manifest = goldenManifest();
    const features = new Set(list(item.get("features")).map(text));
    const found = candidates(manifest, features, text(item.get("target")));
    expect(found.map((program) => program.id)).toEqual(item.get("candidates"));
  });
});

test("a program lacks what its needs name and an adapter has not", () => {
  const needs = { arch: "x86_64", features: ["avx2", "fma"] };
  expect(missing(needs, new Set(["fma"]))).toEqual(["x86_64", "avx2"]);
  expect(missing({ ...needs, arch: null }, new Set(["fma", "avx2"]))).toEqual([]);
});

describe("the plan of an operation:", () => {
  test.each(named(table(load("programs.json")).get("entries"), "operation"))("%s", (_, item) => {
    const program = goldenProgram(goldenManifest(), text(item.get("program")));
    const ask = () => planFor(program, text(item.get("operation")), numbers(item.get("values")));
    const plan = item.get("plan");
    if (plan === null) expect(codeOf(ask)).toBe("bundle.entry");
    else expect(ask()).toBe(plan);
  });
});

/** One object of JSON whose names the interfaces write in camel case; inner objects stay Maps. */
function camel(value: unknown): Record<string, unknown> {
  return Object.fromEntries(
    [...table(value)].map(([key, inner]) => [
      key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
      inner,
    ]),
  );
}
