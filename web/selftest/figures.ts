/** What was measured, in words: on the page and in Markdown; "not measured", and why, where it was not. */
import { gbPerSecond, type KernelReport, type Report } from "./report.ts";

export const NOT = "not measured";

/** Speed and memory, each with its name. */
export function figures({ speed, memory }: Report): readonly (readonly [string, string])[] {
  const read: (readonly [string, string])[] =
    "unmeasured" in speed
      ? [["Speed", not(speed.unmeasured)]]
      : [
          ["Program", speed.program],
          ["Prefill", `${rate(speed.prefillTokensPerSecond)}, ${speed.promptTokens} tokens`],
          ["Decode", `${rate(speed.decodeTokensPerSecond)}, ${speed.decodeTokens} tokens`],
          ["First token", `${speed.ttftMs.toFixed(0)} ms`],
        ];
  const taken: (readonly [string, string])[] =
    "unmeasured" in memory
      ? [["Memory", not(memory.unmeasured)]]
      : [
          ["Weights", mb(memory.weights)],
          ["KV", `${mb(memory.kv)}, ${memory.pages} pages`],
          ["Work", mb(memory.work)],
          ["Peak on the device", mb(memory.peak)],
          ["Peak of the loader", mb(memory.loaderPeak)],
        ];
  return [...read, ...taken];
}

/** 10^9 bytes a second that a kernel moves. */
export function gbWords(kernel: Pick<KernelReport, "ns" | "bytes">): string {
  const gb = gbPerSecond(kernel);
  if (gb === null) return NOT;
  return gb < 10 ? gb.toPrecision(2) : gb.toFixed(1);
}

/** Why kernels were not timed, and how many of them. */
export function reasons(
  kernels: readonly KernelReport[],
): readonly { readonly not: string; readonly count: number }[] {
  const found = new Map<string, number>();
  for (const { by } of kernels) {
    if (typeof by === "object") found.set(by.not, (found.get(by.not) ?? 0) + 1);
  }
  return [...found].map(([reason, count]) => ({ not: reason, count }));
}

function not(why: string): string {
  return `${NOT}: ${why}`;
}

function rate(perSecond: number): string {
  if (perSecond <= 0) return NOT;
  return `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s`;
}

function mb(bytes: number): string {
  return `${(bytes / 1e6).toLocaleString("en", { maximumFractionDigits: 1 })} MB`;
}
