/** What is no plan and no manifest, refused with the code that Python refuses it with. */

import { describe, expect, test } from "vitest";
import { parseManifest, readManifest } from "../../format/manifest-reader.ts";
import { parsePlan, readPlan } from "../../format/plan-reader.ts";
import { checkProgram } from "../../format/program-checks.ts";
import { codeOf, edited, load, named, type Table, written } from "./cases.ts";
import { goldenPlans } from "./goldens.ts";

describe("a plan is refused for", () => {
  test.each(named(load("plan-rejections.json")))("%s", (_, item) => {
    expect(codeOf(() => readPlan(edited(item)))).toBe(item.get("code"));
  });
});

describe("a manifest is refused for", () => {
  test.each(named(load("manifest-rejections.json")))("%s", (_, item) => {
    expect(codeOf(() => readWithProgram(item))).toBe(item.get("code"));
  });
});

describe("a text is refused for", () => {
  test.each(named(load("texts.json")))("%s", (_, item) => {
    const read = item.get("reader") === "plan" ? parsePlan : parseManifest;
    expect(codeOf(() => read(written(item)))).toBe(item.get("code"));
  });
});

/** Some manifests are well-formed, and only their program's plans contradict them. */
function readWithProgram(item: Table): void {
  const manifest = readManifest(edited(item));
  const program = manifest.programs.find(({ id }) => id === item.get("program"));
  if (program) checkProgram(manifest, program, goldenPlans(program));
}
