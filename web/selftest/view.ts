/** The self-test's table and its report, as elements of the page. */
import { figures, gbWords, NOT, reasons } from "./figures.ts";
import type { KernelReport, ProgramReport, Report } from "./report.ts";

const COLUMNS: readonly (readonly [string, (kernel: KernelReport) => string, boolean])[] = [
  ["Kernel", (kernel) => kernel.kernel, false],
  ["Result", (kernel) => (kernel.ok ? "ok" : "wrong"), false],
  ["Checked against", (kernel) => kernel.against, false],
  ["Worst error", (kernel) => (kernel.error === null ? "" : exponent(kernel.error)), true],
  ["Allowed", (kernel) => (kernel.bound === null ? "" : exponent(kernel.bound)), true],
  ["Same bits twice", (kernel) => (kernel.repeats ? "yes" : "no"), false],
  ["Launches", (kernel) => String(kernel.launches), true],
  ["µs", (kernel) => (kernel.ns === null ? NOT : (kernel.ns / 1000).toFixed(1)), true],
  ["GB/s", gbWords, true],
  ["Plans", (kernel) => kernel.plans.join(", "), false],
];

/** A program's results: one row a kernel. */
export function programTable(report: ProgramReport): HTMLElement {
  const section = document.createElement("section");
  section.dataset.program = report.program;
  const title = document.createElement("h2");
  title.textContent = `${report.program}: ${report.ok ? "ok" : "wrong"}`;
  title.classList.toggle("bad", !report.ok);
  section.append(title, paragraph(summary(report)));
  if (report.kernels.length === 0) return section;
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const [name, , numeric] of COLUMNS) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    cell.classList.toggle("number", numeric);
    head.append(cell);
  }
  const body = table.createTBody();
  for (const kernel of report.kernels) {
    const row = body.insertRow();
    row.classList.toggle("bad", !kernel.ok);
    for (const [, show, numeric] of COLUMNS) {
      const cell = row.insertCell();
      cell.textContent = show(kernel);
      cell.classList.toggle("number", numeric);
    }
  }
  section.append(scrolling(table, `Kernels of ${report.program}`));
  for (const { not, count } of reasons(report.kernels)) {
    section.append(paragraph(`${count} kernels were not timed: ${not}`));
  }
  return section;
}

/** Speed and memory: a list of names and what was measured. */
export function measuredList(report: Report): HTMLElement {
  const list = document.createElement("dl");
  for (const [name, value] of figures(report)) {
    const [term, told] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    told.textContent = value;
    list.append(term, told);
  }
  return list;
}

/** What is wider than the page scrolls, by keys too. */
function scrolling(table: HTMLElement, label: string): HTMLElement {
  const place = document.createElement("div");
  place.className = "scroll";
  place.tabIndex = 0;
  place.role = "group";
  place.ariaLabel = label;
  place.append(table);
  return place;
}

/** A report as text; numbers that JSON lacks become words. */
export function reportText(report: Report): string {
  return JSON.stringify(
    report,
    (_, value: unknown) =>
      typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
    2,
  );
}

function summary({ agreement, failure, kernels }: ProgramReport): string {
  if (failure) return failure;
  const referenced = kernels.filter((kernel) => kernel.against === "reference").length;
  const counts = `${referenced} of ${kernels.length} kernels checked against a reference.`;
  if (!agreement) return `${counts} The others are compared with this program's outputs.`;
  const { with: other, error, bound, compared, worst } = agreement;
  const where = worst ? `, at ${worst}` : "";
  return `${counts} ${compared} outputs differ from ${other}'s by a root mean square of at most ${exponent(error)}${where}; ${exponent(bound)} is allowed.`;
}

function paragraph(text: string): HTMLElement {
  const element = document.createElement("p");
  element.textContent = text;
  return element;
}

function exponent(value: number): string {
  return value === 0 ? "0" : value.toExponential(1);
}
