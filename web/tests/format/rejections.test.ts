/** What is no plan and no manifest, refused with the code that Python refuses it with. */

import { describe, expect, test } from "vitest";
import { poolPages } from "../../engine/memory.ts";
import { parseJson } from "../../format/json.ts";
import { readManifest } from "../../format/manifest-reader.ts";
import { parsePlan, readPlan } from "../../format/plan-reader.ts";
import { checkProgram } from "../../format/program-checks.ts";
import { pagedState } from "../../format/state.ts";
import { codeOf, edited, list, load, named, type Table, text, written } from "./cases.ts";
import { goldenPlans } from "./goldens.ts";

describe("a plan is refused for", () => {
  test.each(named(load("plan-rejections.json")))("%s", (_, item) => {
    expect(codeOf(() => readPlan(edited(item)))).toBe(item.get("code"));
  });
});

test("a plan of too many values is refused before it is parsed", () => {
  const data = new TextEncoder().encode(`[${"0,".repeat(2 ** 18)}`);
  expect(codeOf(() => parsePlan(data))).toBe("plan.size");
  expect(codeOf(() => parsePlan(data.subarray(0, 20)))).toBe("plan.json");
  expect(codeOf(() => parsePlan(data.subarray(0, 20), 9))).toBe("plan.size");
});

describe("a manifest is refused for", () => {
  test.each(named(load("manifest-rejections.json")))("%s", (_, item) => {
    expect(codeOf(() => readWithProgram(item))).toBe(item.get("code"));
  });
});

describe("no program can be run of a bundle with", () => {
  test.each(named(load("unsupported-states.json")))("%s", (_, item) => {
    const manifest = readManifest(edited(item));
    const quoted = list(item.get("quotes")).map((part) => expect.stringContaining(text(part)));
    for (const message of quoted) {
      const refused = expect.objectContaining({ code: "unsupported.state", message });
      expect(() => pagedState(manifest)).toThrow(refused);
      const [program] = manifest.programs;
      if (!program) throw new RangeError("a program");
      expect(() => poolPages(manifest, program, 256, null)).toThrow(refused);
    }
    expect(quoted).not.toHaveLength(0);
  });
});

describe("a text is refused for", () => {
  test.each(named(load("texts.json")))("%s", (_, item) => {
    const readJson = (data: Uint8Array) => readManifest(parseJson(data, "a manifest", "bundle"));
    const read = item.get("reader") === "plan" ? parsePlan : readJson;
    expect(codeOf(() => read(written(item)))).toBe(item.get("code"));
  });
});

/** Some manifests are well-formed, and only their program's plans contradict them. */
function readWithProgram(item: Table): void {
  const manifest = readManifest(edited(item));
  const program = manifest.programs.find(({ id }) => id === item.get("program"));
  if (program) checkProgram(manifest, program, goldenPlans(program));
}
