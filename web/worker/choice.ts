/** Which programs of a bundle may be loaded here, the preferred first. */

import type { Gpu } from "../device/gpu.ts";
import { EdgewiseError } from "../errors.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import { candidates, missing, rounding } from "../format/programs.ts";
import type { LoadRequest } from "./protocol.ts";
import type { Verdicts } from "./verdicts.ts";

export type Programs = readonly [Program, ...Program[]];

/**
 * The one asked for, or all that fit the adapter but for those to avoid.
 *
 * @throws EdgewiseError `bundle.unknown_name`, `device.no_program`.
 */
export function fittingPrograms(
  request: LoadRequest,
  manifest: BundleManifest,
  gpu: Gpu,
  avoid: ReadonlySet<string>,
): Programs {
  if (request.program !== undefined) return [askedFor(request.program, manifest, gpu)];
  const [first, ...more] = others(request, manifest, gpu, avoid);
  if (first) return [first, ...more];
  const last = manifest.programs.filter((program) => program.target === "webgpu").at(-1);
  if (last && avoid.size === 0) throw unfit(last.id, missing(last.needs, gpu.features), gpu);
  throw new EdgewiseError(
    "device.no_program",
    `The bundle ${manifest.name} has no ${last ? "other" : "webgpu"} program.`,
    last ? "" : "Add one: edgewise compile MODEL --target webgpu -o BUNDLE.",
  );
}

/** Programs that fit the adapter and are not to be avoided; none where one was asked for. */
export function others(
  request: LoadRequest,
  manifest: BundleManifest,
  gpu: Gpu,
  avoid: ReadonlySet<string>,
): readonly Program[] {
  if (request.program !== undefined) return [];
  const { features } = gpu;
  const fitting = [...candidates(manifest, features), ...rounding(manifest, features)];
  return fitting.filter(({ id }) => !avoid.has(id));
}

/** All but those that were wrong here before, unless all were: something may have been mended. */
export async function trusted(fitting: Programs, verdicts: Verdicts): Promise<Programs> {
  const wrong = await Promise.all(fitting.map((program) => verdicts.isWrong(program)));
  const [first, ...more] = fitting.filter((_, i) => !wrong[i]);
  return first ? [first, ...more] : fitting;
}

/**
 * The programs that are left where one is wrong.
 *
 * @throws EdgewiseError `device.output` where none is.
 */
export function without(
  programs: Programs,
  wrong: Program,
  adapter: string,
  why: EdgewiseError,
): Programs {
  const [next, ...more] = programs.filter((program) => program !== wrong);
  if (next) return [next, ...more];
  throw new EdgewiseError(
    "device.output",
    `${adapter} runs no program of this model as it should. ${why.message}`,
    "Update the browser and the GPU's driver, or use another device.",
    { cause: why },
  );
}

function askedFor(id: string, manifest: BundleManifest, gpu: Gpu): Program {
  const asked = manifest.programs.find((program) => program.id === id);
  if (asked === undefined) {
    throw new EdgewiseError(
      "bundle.unknown_name",
      `The bundle has no program ${JSON.stringify(id)}.`,
      `It has ${manifest.programs.map((program) => program.id).join(", ")}.`,
    );
  }
  const lacking = asked.target === "webgpu" ? missing(asked.needs, gpu.features) : [asked.target];
  if (lacking.length > 0) throw unfit(asked.id, lacking, gpu);
  return asked;
}

function unfit(id: string, lacking: readonly string[], gpu: Gpu): EdgewiseError {
  return new EdgewiseError(
    "device.no_program",
    `The program ${id} needs ${lacking.join(", ")}, which ${gpu.report.name} does not have.`,
    "Leave the choice of the program to the engine, or use another device.",
  );
}
