import { readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { LACKING } from "./lacking.ts";
import { usedBy } from "./sources.ts";

const WEB = join(import.meta.dirname, "..");
const ROOMS = [
  "calls",
  "chat",
  "client",
  "device",
  "engine",
  "format",
  "grammar",
  "selftest",
  "store",
  "worker",
];

/** What `for await` may go through: generators of our own, and folders, which every browser iterates. */
const ITERATED = [
  "folder.keys()",
  "generation.deltas",
  "program.trace(name)",
  "running.pieces",
  "this.deltas",
];

const FILES = ROOMS.flatMap((room) =>
  readdirSync(join(WEB, room), { recursive: true, encoding: "utf8" }).map((name) =>
    join(room, name),
  ),
);
const ending = (...endings: string[]) => FILES.filter((file) => endings.includes(extname(file)));
const read = (file: string) => readFileSync(join(WEB, file), "utf8");

const SCRIPTS = ending(".ts", ".tsx").map((file) => ({ file, ...usedBy(file, read(file)) }));
const STYLES = ending(".css").map((file) => ({
  file,
  text: read(file).replace(/\/\*.*?\*\//gs, ""),
}));

describe.each(LACKING)("$feature, which $by lack", ({ feature, uses = [], css, optional = [] }) => {
  it("is used only where it may be missing", () => {
    const used = SCRIPTS.filter(({ names }) => uses.some((name) => names.has(name)));
    const styled = STYLES.filter(({ text }) => css?.test(text));
    expect([...used, ...styled].map(({ file }) => file)).toEqual(optional);
  });

  it("is in docs/browsers.md", () => {
    expect(readFileSync(join(WEB, "../docs/browsers.md"), "utf8")).toContain(feature);
  });
});

it("nothing is iterated asynchronously that might be a stream", () => {
  const iterated = new Set(SCRIPTS.flatMap(({ awaited }) => awaited));
  expect([...iterated].sort()).toEqual(ITERATED);
});

it("the service worker is one script: Firefox has no modules there", () => {
  expect(read("chat/sw.ts")).not.toMatch(/^(?:import|export)\b/m);
  expect(read("chat/main.tsx")).toContain('serviceWorker.register("/sw.js")');
});

describe("the search finds", () => {
  it.each([
    ["Promise.try(work)", "Promise.try"],
    ["data.toBase64()", ".toBase64"],
    ["data?.toBase64()", ".toBase64"],
    ['data["toBase64"]()', ".toBase64"],
    ["globalThis.scheduler.yield()", "scheduler"],
    ["if (scheduler) go()", "scheduler"],
    ["globalThis.navigator?.connection", "navigator.connection"],
    ['const x = <dialog closedby="any" />', "<closedby"],
  ])("in %s: %s", (code, name) => {
    expect([...usedBy("x.tsx", code).names]).toContain(name);
  });

  it("what is iterated, and leaves alone what a comment or a text says", () => {
    const code =
      'for await (const part of response.body ?? []) use(part, "scheduler"); // scheduler';
    const { names, awaited } = usedBy("x.ts", code);
    expect(awaited).toEqual(["response.body ?? []"]);
    expect(names).not.toContain("scheduler");
  });
});
