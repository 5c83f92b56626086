/** A report as Markdown, to be pasted into an issue: what runs it, what is wrong, and how long all took. */
import { figures, gbWords, NOT, reasons } from "./figures.ts";
import type { KernelReport, ProgramReport, Report } from "./report.ts";

/** Kernels of a program that are shown where all are right: those that take longest. */
const SLOWEST = 20;
const SMALLEST_FENCE = 3;

export function markdown(report: Report): string {
  const { adapter, environment: around, programs } = report;
  const storage =
    around.quota === null ? "not told" : `${mb(around.usage ?? 0)} of ${mb(around.quota)} MB used`;
  const known: readonly (readonly [string, string])[] = [
    ["edgewise", report.edgewise],
    ["Date", report.date],
    ["Browser", report.browser],
    ["Bundle", report.bundle],
    ["Adapter", `${adapter.name}${adapter.fallback ? " (software)" : ""}`],
    ["Vendor, architecture", `${adapter.vendor}, ${adapter.architecture}`],
    ["Subgroups", subgroups(adapter.subgroupMinSize, adapter.subgroupMaxSize)],
    ["Features", around.features.join(", ") || "none"],
    ["WGSL language features", around.languageFeatures.join(", ") || "none"],
    ["Processor", `${around.cores} cores, memory ${gb(around.memoryGb)}`],
    ["Storage", storage],
  ];
  return [
    `## edgewise self-test: ${report.ok ? "everything is right" : "some results are wrong"}`,
    table(["", ""], known),
    table(["Measured", ""], figures(report)),
    details("Limits", table(["Limit", "Value"], Object.entries(around.limits).map(limit))),
    ...programs.map(programPart),
  ]
    .join("\n\n")
    .concat("\n");
}

function programPart(report: ProgramReport): string {
  const { agreement, failure, kernels, program } = report;
  const wrong = kernels.filter(({ ok }) => !ok);
  const untimed = reasons(kernels);
  const slowest = [...kernels].sort((a, b) => (b.ns ?? 0) - (a.ns ?? 0)).slice(0, SLOWEST);
  const disagrees = agreement !== null && agreement.error > agreement.bound;
  return [
    `### ${code(program)}: ${report.ok ? "right" : "wrong"}`,
    ...(failure ? [fenced(failure)] : []),
    ...(disagrees
      ? [
          `${code(agreement.worst)} is ${number(agreement.error)} off ${code(agreement.with)}; ${number(agreement.bound)} is allowed.`,
        ]
      : []),
    ...(wrong.length > 0
      ? [`${wrong.length} of ${kernels.length} kernels are wrong:`, kernelTable(wrong)]
      : []),
    ...(kernels.length > 0
      ? [
          details(
            `The slowest of ${kernels.length} kernels, ${referenced(kernels)} of them checked against a reference`,
            kernelTable(slowest),
          ),
        ]
      : []),
    ...untimed.map(({ not, count }) => `${count} of them not measured: ${cell(not)}`),
  ].join("\n\n");
}

function kernelTable(kernels: readonly KernelReport[]): string {
  return table(
    ["Kernel", "Error", "Allowed", "Same bits twice", "µs", "GB/s"],
    kernels.map(({ kernel, error, bound, repeats, ns, bytes }) => [
      code(kernel),
      error === null ? "no reference" : number(error),
      bound === null ? "" : number(bound),
      repeats ? "yes" : "no",
      ns === null ? NOT : (ns / 1000).toFixed(1),
      gbWords({ ns, bytes }),
    ]),
  );
}

function referenced(kernels: readonly KernelReport[]): number {
  return kernels.filter(({ against }) => against === "reference").length;
}

function limit([name, value]: readonly [string, number]): readonly string[] {
  return [code(name), String(value)];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** What drivers and file names say is text, and stays in its cell. */
function cell(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.replace(/[|<@]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}

function code(text: string): string {
  return `\`${text.replace(/`/g, "'")}\``;
}

/** A block that no run of backticks within it ends. */
function fenced(text: string): string {
  const runs = [...text.matchAll(/`+/g)].map(([run]) => run.length);
  const fence = "`".repeat(Math.max(SMALLEST_FENCE, ...runs.map((run) => run + 1)));
  return `${fence}text\n${text}\n${fence}`;
}

function details(summary: string, body: string): string {
  return `<details><summary>${summary}</summary>\n\n${body}\n\n</details>`;
}

function subgroups(least: number | null, most: number | null): string {
  return least === null || most === null ? "not told" : `${least} to ${most} lanes`;
}

function number(value: number): string {
  return value === 0 ? "0" : value.toExponential(1);
}

function mb(bytes: number): string {
  return Math.round(bytes / 1e6).toLocaleString("en");
}

function gb(gigabytes: number | null): string {
  return gigabytes === null ? "not told" : `${gigabytes} GB or more`;
}
