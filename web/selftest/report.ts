/** What the self-test found, as data: shown as a table, and kept as JSON. */
import type { AdapterReport } from "../client/types.ts";
import type { KernelResult, ProgramResult } from "./check.ts";
import type { Environment } from "./environment.ts";
import { rmsError } from "./numbers.ts";
import type { MemoryInUse, Speed, Unmeasured } from "./speed.ts";
import type { KernelTime } from "./timing.ts";

const UNTIMED: KernelTime = { ns: null, bytes: null, by: { not: "no plan launches it" } };

/**
 * By how much outputs of two programs may differ, root mean square over root mean square. What kernels
 * round adds up from layer to layer, so this is more than references allow.
 */
const BETWEEN: Readonly<Record<string, number>> = { f32: 1e-4, f16: 1e-2 };
/** Programs that round activations, or keys and values, to int8. */
const BETWEEN_INTEGERS = 0.1;

export interface KernelReport extends KernelResult {
  readonly ok: boolean;
  /** What it was checked against: a reference in float64, or only itself and other programs. */
  readonly against: "reference" | "agreement";
  /** Nanoseconds of a launch for a row or two, and bytes that it moves by its plan; null where not measured. */
  readonly ns: number | null;
  readonly bytes: number | null;
  /** How it was timed, or why not. */
  readonly by: KernelTime["by"];
}

/** 10^9 bytes a second that a kernel moves; null where one of both was not measured. */
export function gbPerSecond({ ns, bytes }: Pick<KernelReport, "ns" | "bytes">): number | null {
  return ns && bytes ? bytes / ns : null;
}

export interface ProgramReport {
  readonly program: string;
  readonly ok: boolean;
  readonly kernels: readonly KernelReport[];
  /** How far its outputs are from those of the first program tested. */
  readonly agreement: Agreement | null;
  /** Why it could not be tested, in words. */
  readonly failure: string;
}

export interface Agreement {
  readonly with: string;
  readonly bound: number;
  /** The largest such difference of an output, and the output that has it. */
  readonly error: number;
  readonly worst: string;
  readonly compared: number;
}

export interface Report {
  readonly version: 3;
  /** The version of edgewise that the page is of. */
  readonly edgewise: string;
  readonly date: string;
  readonly browser: string;
  readonly bundle: string;
  readonly adapter: AdapterReport;
  readonly environment: Environment;
  readonly ok: boolean;
  readonly programs: readonly ProgramReport[];
  readonly speed: Speed | Unmeasured;
  readonly memory: MemoryInUse | Unmeasured;
}

/** A tested program and what it computes in. */
export interface Tested {
  readonly id: string;
  readonly arithmetic: string;
  /** What its pages hold. */
  readonly stateDtype: string;
  readonly result: ProgramResult;
}

/** The report of one program. */
export function programReport(
  tested: Tested,
  times: ReadonlyMap<string, KernelTime>,
  baseline: Tested | null,
): ProgramReport {
  const kernels = tested.result.kernels.map((result): KernelReport => {
    const { ns, bytes, by } = times.get(result.kernel) ?? UNTIMED;
    const within = result.error === null || result.error <= (result.bound ?? 0);
    return {
      ...result,
      ok: result.repeats && within,
      against: result.error === null ? "agreement" : "reference",
      ns: ns === null ? null : Math.round(ns),
      bytes,
      by,
    };
  });
  const agreement = baseline ? agreementOf(tested, baseline) : null;
  const agrees = agreement === null || agreement.error <= agreement.bound;
  const ok = agrees && kernels.every((kernel) => kernel.ok);
  return { program: tested.id, ok, kernels, agreement, failure: "" };
}

/** The report of a program that could not be tested. */
export function failed(program: string, failure: string): ProgramReport {
  return { program, ok: false, kernels: [], agreement: null, failure };
}

function agreementOf(tested: Tested, baseline: Tested): Agreement {
  let error = 0;
  let worst = "";
  let compared = 0;
  for (const [label, output] of tested.result.outputs) {
    const reference = baseline.result.outputs.get(label);
    if (reference?.length !== output.length) continue; // fused differently
    compared += 1;
    const found = rmsError(output, reference);
    if (found > error) [error, worst] = [found, label];
  }
  const bounds = [tested, baseline].map(({ arithmetic, stateDtype }) =>
    stateDtype === "int8" ? BETWEEN_INTEGERS : (BETWEEN[arithmetic] ?? BETWEEN_INTEGERS),
  );
  return { with: baseline.id, bound: Math.max(...bounds), error, worst, compared };
}
