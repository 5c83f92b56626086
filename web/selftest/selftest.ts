/**
 * The self-test page: `?bundle=/bundles/NAME/` chooses a bundle, `&program=ID` one of its programs,
 * `&run` starts at once.
 */
import { probe } from "../device/adapter.ts";
import { EdgewiseError } from "../errors.ts";
import { type Bench, openBench } from "./load.ts";
import { markdown } from "./markdown.ts";
import type { Report } from "./report.ts";
import { testBundle } from "./run.ts";
import { measuredList, programTable, reportText } from "./view.ts";

const query = new URLSearchParams(location.search);
const form = element("form", HTMLFormElement);
const bundle = element("bundle", HTMLSelectElement);
const program = element("program", HTMLSelectElement);
const run = element("run", HTMLButtonElement);
const stop = element("stop", HTMLButtonElement);
const status = element("status", HTMLElement);
const progress = element("progress", HTMLProgressElement);
const results = element("results", HTMLElement);
const download = element("download", HTMLAnchorElement);

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void start();
});
element("copy", HTMLButtonElement).addEventListener("click", () => void copyReport());
bundle.addEventListener("change", () => void offerPrograms());
void prepare();

/** Fills in what there is to choose. */
async function prepare(): Promise<void> {
  try {
    const { report } = await probe(navigator.gpu);
    const features = report.features.join(", ") || "no optional features";
    element("adapter", HTMLElement).textContent = report.available
      ? `${report.name || report.vendor} (${report.architecture}): ${features}`
      : report.reason;
    const bundles = await listBundles();
    const asked = query.get("bundle");
    if (asked && !bundles.some(({ url }) => url === asked))
      bundles.push({ name: asked, url: asked });
    bundle.replaceChildren(...bundles.map(({ name, url }) => new Option(name, url)));
    if (asked) bundle.value = asked;
    run.disabled = !report.available || bundles.length === 0;
    if (run.disabled) return;
    await offerPrograms();
    program.value = query.get("program") ?? "";
    if (query.has("run")) await start();
  } catch (error) {
    say(error);
  }
}

async function offerPrograms(): Promise<void> {
  const bench = await openBench(bundle.value, new AbortController().signal);
  const ids = bench.programs.map(({ id }) => id);
  program.replaceChildren(
    new Option("every one that fits", ""),
    ...ids.map((id) => new Option(id)),
  );
  bench.gpu.close();
}

async function start(): Promise<void> {
  const aborter = new AbortController();
  run.disabled = true;
  stop.hidden = false;
  stop.onclick = () => aborter.abort();
  progress.hidden = false;
  results.replaceChildren();
  element("measured", HTMLElement).replaceChildren();
  for (const id of ["raw", "text", "handover"]) element(id, HTMLElement).hidden = true;
  element("copied", HTMLElement).textContent = "";
  element("verdict", HTMLElement).textContent = "";
  let bench: Bench | null = null;
  try {
    bench = await openBench(bundle.value, aborter.signal);
    const report = await testBundle(bench, bundle.value, program.value, {
      tell: (text, done) => {
        status.textContent = text;
        progress.value = done;
      },
      onProgram: (tested) => results.append(programTable(tested)),
      signal: aborter.signal,
    });
    publish(report);
  } catch (error) {
    say(error);
  } finally {
    bench?.gpu.close();
    run.disabled = false;
    stop.hidden = true;
    progress.hidden = true;
  }
}

function publish(report: Report): void {
  const text = reportText(report);
  status.textContent = "";
  const verdict = element("verdict", HTMLElement);
  verdict.textContent = report.ok ? "Everything is as it should be." : "Some results are wrong.";
  verdict.classList.toggle("bad", !report.ok);
  element("measured", HTMLElement).replaceChildren(measuredList(report));
  element("report", HTMLElement).textContent = text;
  element("markdown", HTMLElement).textContent = markdown(report);
  for (const id of ["raw", "text", "handover"]) element(id, HTMLElement).hidden = false;
  if (download.href.startsWith("blob:")) URL.revokeObjectURL(download.href);
  download.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  download.download = `edgewise-selftest-${report.date.slice(0, 10)}.json`;
}

/** Puts the report on the clipboard; where that is not allowed it is shown, to be copied by hand. */
async function copyReport(): Promise<void> {
  const text = element("markdown", HTMLElement).textContent ?? "";
  const told = element("copied", HTMLElement);
  try {
    await navigator.clipboard.writeText(text);
    told.textContent = "Copied.";
  } catch {
    element("text", HTMLDetailsElement).open = true;
    told.textContent = "The browser does not allow that; copy it from below.";
  }
}

interface Listed {
  readonly name: string;
  readonly url: string;
}

async function listBundles(): Promise<Listed[]> {
  const response = await fetch("/api/bundles");
  const answer: unknown = response.ok ? await response.json() : null;
  const listed: unknown = isObject(answer) ? answer.bundles : [];
  return (Array.isArray(listed) ? listed : []).flatMap((entry: unknown) => {
    if (!isObject(entry)) return [];
    const { name, url } = entry;
    return typeof name === "string" && typeof url === "string" ? [{ name, url }] : [];
  });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function say(error: unknown): void {
  if (error instanceof EdgewiseError) status.textContent = `${error.message} ${error.remedy}`;
  else status.textContent = error instanceof Error ? error.message : String(error);
  status.classList.add("bad");
}

function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
  return found;
}
