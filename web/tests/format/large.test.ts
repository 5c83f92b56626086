/** Numbers of bundles and plans beyond 2^32; tests/runtime/format/test_large.py has the same ones. */

import { expect, test } from "vitest";
import { readManifest } from "../../format/manifest-reader.ts";
import { bufferSizes } from "../../format/plan-checks.ts";
import { readPlan } from "../../format/plan-reader.ts";
import { codeOf, list, load, type Table, table } from "./cases.ts";

const FILE = "params/gpu/00000.safetensors";
const BEYOND = 2 ** 33;
/** As many pages as there may be, of a mebibyte for each layer: 2^36 bytes. */
const PAGES = 2 ** 16;
const PAGE = 2 ** 20;

/** The golden manifest with the weights for GPUs `shift` bytes further back in their file. */
function largeManifest(shift = BEYOND): Table {
  const manifest = table(load("goldens/bundle.json"));
  const layout = table(table(manifest.get("layouts")).get("gpu"));
  for (const tensor of table(layout.get("tensors")).values()) {
    table(tensor).set("offset", Number(table(tensor).get("offset")) + shift);
  }
  const file = table(table(manifest.get("files")).get(FILE));
  const size = Number(file.get("bytes")) + BEYOND;
  file.set("bytes", size).set("chunks", new Array(Math.ceil(size / 2 ** 25)).fill("0".repeat(64)));
  return manifest;
}

test("a manifest keeps sizes and places beyond 2^32", () => {
  const manifest = readManifest(largeManifest());
  const file = manifest.files.get(FILE);
  expect(file?.bytes).toBe(BEYOND + 102720);
  expect(file?.chunks).toHaveLength(257);
  expect(manifest.layouts.get("gpu")?.get("embed.weight")?.offset).toBe(BEYOND + 2112);
});

test("a tensor beyond the end of its large file is refused", () => {
  expect(codeOf(() => readManifest(largeManifest(BEYOND + 2 ** 32)))).toMatch(/^bundle\./);
});

/** A golden plan with large pages, its table of tokens at `offset` in a large buffer. */
function largePlan(offset = BEYOND): Table {
  const plan = table(load("goldens/programs/webgpu-f32/plans/decode.json"));
  for (const buffer of list(plan.get("buffers")).map(table)) {
    if (/^kv\.\d+$/.test(String(buffer.get("name")))) {
      buffer.set("shape", ["pages", 2, 4, PAGE / 16]).set("bytes", ["mul", "pages", PAGE]);
    }
    if (buffer.get("name") === "embed.weight") {
      buffer.set("shape", [BEYOND / 4 + 2560]).set("bytes", BEYOND + 10240);
    }
  }
  for (const step of list(plan.get("steps")).map(table)) {
    for (const binding of list(step.get("bindings")).map(table)) {
      if (binding.get("buffer") === "embed.weight") binding.set("offset", offset);
    }
  }
  return plan;
}

test("a plan keeps sizes and places beyond 2^32", () => {
  const plan = readPlan(largePlan());
  const sizes = bufferSizes([plan], new Map([["pages", PAGES]]));
  expect(sizes.get("kv.0")).toBe(2 ** 36);
  expect(sizes.get("embed.weight")).toBe(BEYOND + 10240);
  const places = plan.steps.flatMap(({ bindings }) =>
    bindings.filter(({ buffer }) => buffer === "embed.weight").map(({ offset }) => offset),
  );
  expect(new Set(places)).toEqual(new Set([BEYOND]));
});

test("a place beyond the end of a large buffer is refused", () => {
  expect(codeOf(() => readPlan(largePlan(BEYOND + 2 ** 32)))).toMatch(/^plan\./);
});
