/** Tests the programs of a bundle, one after the other, and reports on all of them. */
import type { LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import { version } from "../package.json";
import { checkProgram, type ProgramResult } from "./check.ts";
import { environment } from "./environment.ts";
import type { Bench } from "./load.ts";
import { failed, type ProgramReport, programReport, type Report, type Tested } from "./report.ts";
import { measure } from "./speed.ts";
import { type KernelTime, timeKernels } from "./timing.ts";

export interface RunOptions {
  /** Hears what is being done, and what part of all of it is. */
  readonly tell: (text: string, done: number) => void;
  readonly onProgram: (report: ProgramReport) => void;
  readonly signal: AbortSignal;
}

/** The parts of all that is done: programs, then speed and memory. */
const PROGRAMS_PART = 0.85;

/**
 * Test one program of a bundle, or with an empty id every one that fits the adapter.
 *
 * A program that fails is in the report with the reason; the next one is tested all the same, unless
 * the device is lost: then those that are left are in it untested, and so are figures that cannot be had.
 */
export async function testBundle(
  bench: Bench,
  bundle: string,
  id: string,
  options: RunOptions,
): Promise<Report> {
  const chosen = bench.programs.filter((program) => id === "" || program.id === id);
  const reports: ProgramReport[] = [];
  let baseline: Tested | null = null;
  let lost: EdgewiseError | null = null;
  for (const [at, program] of chosen.entries()) {
    const within = (part: number) => (PROGRAMS_PART * (at + part)) / chosen.length;
    if (lost) {
      reports.push(failed(program.id, `It was not tested: ${lost.message}`));
      continue;
    }
    let report: ProgramReport;
    try {
      const { tested, times } = await testProgram(bench, program, within, options);
      report = programReport(tested, times, baseline);
      baseline ??= tested;
    } catch (error) {
      if (options.signal.aborted) throw error;
      if (isLost(error)) lost = error;
      report = failed(program.id, error instanceof Error ? error.message : String(error));
    }
    reports.push(report);
    options.onProgram(report);
  }
  // Weights are on the device once more, and once only.
  bench.gpu.close();
  const { model } = bench.files.manifest;
  const tell = (text: string) => options.tell(text, PROGRAMS_PART);
  const measured = await measure({
    url: bundle,
    program: id,
    model,
    tell,
    signal: options.signal,
  });
  return {
    version: 3,
    edgewise: version,
    date: new Date().toISOString(),
    browser: navigator.userAgent,
    bundle,
    adapter: bench.gpu.report,
    environment: await environment(navigator.gpu),
    ok: reports.length > 0 && reports.every((report) => report.ok),
    programs: reports,
    ...measured,
  };
}

async function testProgram(
  bench: Bench,
  program: Program,
  within: (part: number) => number,
  { tell, signal }: RunOptions,
): Promise<{ tested: Tested; times: ReadonlyMap<string, KernelTime> }> {
  const { id, arithmetic, stateDtype } = program;
  const loaded = await bench.load(program, (what) => tell(`${id}: ${what}`, within(0)));
  try {
    const result = await checkProgram(
      loaded,
      (done, total) => tell(`${id}: checking, ${done} of ${total}`, within((0.8 * done) / total)),
      signal,
    );
    tell(`${id}: timing`, within(0.8));
    const times = await timesOf(bench, loaded, result, signal);
    return { tested: { id, arithmetic, stateDtype, result }, times };
  } finally {
    loaded.close();
  }
}

/** What was found right or wrong is told, whatever becomes of times. */
async function timesOf(
  { gpu, files }: Bench,
  loaded: LoadedProgram,
  { kernels, last }: ProgramResult,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, KernelTime>> {
  try {
    return await timeKernels(gpu, loaded, await files.allShaders(loaded.program), last, signal);
  } catch (error) {
    signal.throwIfAborted();
    const not = error instanceof Error ? error.message : String(error);
    return new Map(kernels.map(({ kernel }) => [kernel, { ns: null, bytes: null, by: { not } }]));
  }
}

function isLost(error: unknown): error is EdgewiseError {
  return error instanceof EdgewiseError && error.code === "device.lost";
}
