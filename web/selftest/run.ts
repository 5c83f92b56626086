/** Tests the programs of a bundle, one after the other, and reports on all of them. */
import { EdgewiseError } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import { version } from "../package.json";
import { checkProgram } from "./check.ts";
import { environment } from "./environment.ts";
import type { Bench } from "./load.ts";
import { failed, type ProgramReport, programReport, type Report, type Tested } from "./report.ts";
import { timeKernels } from "./timing.ts";

export interface RunOptions {
  /** Hears what is being done, and what part of all of it is. */
  readonly tell: (text: string, done: number) => void;
  readonly onProgram: (report: ProgramReport) => void;
  readonly signal: AbortSignal;
}

/**
 * Test one program of a bundle, or with an empty id every one that fits the adapter.
 *
 * A program that fails is in the report with the reason; the next one is tested all the same, unless
 * the device is lost.
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
  for (const [at, program] of chosen.entries()) {
    const within = (part: number) => (at + part) / chosen.length;
    let report: ProgramReport;
    try {
      const { tested, times } = await testProgram(bench, program, within, options);
      report = programReport(tested, times, baseline);
      baseline ??= tested;
    } catch (error) {
      if (options.signal.aborted || isLost(error)) throw error;
      report = failed(program.id, error instanceof Error ? error.message : String(error));
    }
    reports.push(report);
    options.onProgram(report);
  }
  return {
    version: 2,
    edgewise: version,
    date: new Date().toISOString(),
    browser: navigator.userAgent,
    bundle,
    adapter: bench.gpu.report,
    environment: await environment(navigator.gpu),
    ok: reports.length > 0 && reports.every((report) => report.ok),
    programs: reports,
  };
}

async function testProgram(
  bench: Bench,
  program: Program,
  within: (part: number) => number,
  { tell, signal }: RunOptions,
): Promise<{ tested: Tested; times: ReadonlyMap<string, number> }> {
  const { id, arithmetic, stateDtype } = program;
  const loaded = await bench.load(program, (what) => tell(`${id}: ${what}`, within(0)));
  try {
    const result = await checkProgram(
      loaded,
      (done, total) => tell(`${id}: checking, ${done} of ${total}`, within((0.8 * done) / total)),
      signal,
    );
    tell(`${id}: timing`, within(0.8));
    return { tested: { id, arithmetic, stateDtype, result }, times: await timeKernels(loaded) };
  } finally {
    loaded.close();
  }
}

function isLost(error: unknown): boolean {
  return error instanceof EdgewiseError && error.code === "device.lost";
}
