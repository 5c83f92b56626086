/** The part of a compiled bundle in tests/format/goldens. */

import type { BundleManifest, Program } from "../../format/manifest.ts";
import { readManifest } from "../../format/manifest-reader.ts";
import type { Plan } from "../../format/plan.ts";
import { parsePlan } from "../../format/plan-reader.ts";
import { bytes, load } from "./cases.ts";

/** The program whose plans are there. */
export const PROGRAM = "webgpu-f32";

export function goldenManifest(): BundleManifest {
  return readManifest(load("goldens/bundle.json"));
}

export function goldenProgram(manifest: BundleManifest, id = PROGRAM): Program {
  const program = manifest.programs.find((candidate) => candidate.id === id);
  if (program) return program;
  throw new RangeError(`the golden bundle has no program ${id}`);
}

export function goldenPlan(file: string): Plan {
  return parsePlan(bytes(`goldens/${file}`));
}

export function goldenPlans(program: Program): Map<string, Plan> {
  return new Map([...program.plans].map(([name, path]) => [name, goldenPlan(path)]));
}
