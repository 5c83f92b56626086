import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LACKING, removedIn } from "../lacking.ts";
import { usedBy } from "../sources.ts";
import { keptFiles } from "./kept-files.ts";
import type { Lacks } from "./lacks.ts";
import type {} from "./pages/library.ts";
import { PAGES, REPOSITORY, WAIT } from "./paths.ts";
import { openSession, type Session } from "./session.ts";
import { by, offeredOnly } from "./visits.ts";
import { takeCounts } from "./worker-patch.ts";

const BUILT = join(REPOSITORY, "sdk/edgewise/server/static");
const SHARD = "/bundles/demo-q4/params/gpu/00000.safetensors";
/** What libraries of the app look for first: Preact. */
const ASKED_FIRST = ["moveBefore"];

/** Neither has subgroups; what else of WebGPU's they have depends on the GPU. */
const BROWSERS: readonly { name: string; storage: "opfs" | "indexeddb"; lacks: Lacks }[] = [
  {
    name: "Safari",
    storage: "opfs",
    lacks: { remove: removedIn("Safari"), features: ["shader-f16"], timerMs: 0 },
  },
  {
    name: "Firefox, in a private window",
    storage: "indexeddb",
    lacks: {
      remove: [...removedIn("Firefox"), "StorageManager.prototype.getDirectory"],
      features: ["timestamp-query"],
      timerMs: 100,
    },
  },
];

describe.each(BROWSERS)("with what $name lacks gone, the app", ({ storage, lacks }) => {
  let session: Session;
  let page: Page;

  /** The model is there; or why it is not. */
  const ready = async () => {
    const status = by(page, "device-status").filter({ hasText: /^Ready on/ });
    await status.or(by(page, "error")).first().waitFor(WAIT);
    expect(await by(page, "error").allTextContents()).toEqual([]);
  };
  const ask = async (text: string) => {
    const count = await by(page, "assistant-message").count();
    await by(page, "prompt").fill(text);
    await by(page, "prompt").press("Enter");
    const answer = by(page, "assistant-message").nth(count);
    await answer.getByTestId("stats").waitFor(WAIT);
    return answer.locator(".markdown").textContent();
  };

  beforeAll(async () => {
    session = await openSession("lavapipe");
    page = await session.page({ lacks });
    await page.goto(session.proxy.url);
  });
  afterAll(() => session?.close());

  it("finds nothing of it", async () => {
    const left = await page.evaluate(
      (paths) =>
        paths.filter((path) => {
          const names = path.split(".");
          const last = names.pop() ?? "";
          const key = last.startsWith("@@") ? Reflect.get(Symbol, last.slice(2)) : last;
          // biome-ignore lint/suspicious/noExplicitAny: a path through whatever there is
          const owner = names.reduce((from: any, name) => from?.[name], globalThis);
          return owner && key in owner;
        }),
      lacks.remove,
    );
    expect(left).toEqual([]);
  });

  it("loads a model and answers", async () => {
    await by(page, "model-picker").selectOption("/bundles/demo-q4/");
    await ready();
    const { told } = await takeCounts(page);
    expect(told === undefined).toBe(lacks.timerMs === 0);
    expect(told?.bySubmit).not.toBe(0); // nudges: nothing else is submitted before it is told of
    expect((await ask("Hello! Who are you?"))?.length).toBeGreaterThan(0);
  });

  it("keeps the model and what it has read, and finds both again by itself", async () => {
    const pages = async () => (await keptFiles(page)).files.length;
    await expect.poll(pages, WAIT).toBeGreaterThan(0);
    session.proxy.fetched.length = 0;
    await page.reload();
    await ready();
    await by(page, "conversation").first().click();
    expect((await ask("How are you today?"))?.length).toBeGreaterThan(0);
    const stats = by(page, "assistant-message").last().getByTestId("stats");
    expect(await stats.textContent()).toMatch(/[1-9]\d* of \d+ prompt tokens cached/);
    expect(session.proxy.fetched.map(({ path }) => path)).not.toContain(SHARD);
    const option = by(page, "model-picker").locator("option", { hasText: "demo-q4" });
    expect(await option.textContent()).toContain("on this device");
    const warned = await page.getByText("keeps models in IndexedDB").count();
    expect(warned > 0).toBe(storage === "indexeddb");
  });

  it("complains of nothing", () => {
    expect(session.complaints).toEqual([]);
  });
});

it("a browser without WebGPU opens the app all the same, which says what would help", async () => {
  const names = "AdapterInfo Adapter Buffer BufferUsage Device MapMode Queue ShaderStage".split(
    " ",
  );
  const gone = [...names.map((name) => `GPU${name}`), "Navigator.prototype.gpu"];
  const lacks = { remove: [...removedIn("Firefox"), ...gone], features: [], timerMs: 0 };
  const session = await openSession("lavapipe");
  const page = await session.page({ lacks });
  await offeredOnly(page);
  await page.goto(session.proxy.url);
  await by(page, "error").waitFor(WAIT);
  expect(await by(page, "error").textContent()).toContain("This browser has no WebGPU.");
  expect(session.complaints).toEqual([]);
  await session.close();
});

it("what the app is built with uses nothing that is lacking", () => {
  const built = readdirSync(BUILT, { recursive: true, encoding: "utf8" });
  const scripts = built.filter((name) => name.endsWith(".js"));
  expect(scripts).toContain("sw.js");
  const used = scripts.map((name) => usedBy(name, readFileSync(join(BUILT, name), "utf8")).names);
  const found = LACKING.filter(
    ({ uses = [], optional = [] }) =>
      optional.length === 0 && uses.some((name) => used.some((names) => names.has(name))),
  );
  expect(found.map(({ feature }) => feature)).toEqual(ASKED_FIRST);
});

describe("an engine whose worker comes from another origin", () => {
  let page: Page;
  let session: Session;
  let other: Session;
  let script: string;

  const load = (url: string, persist?: boolean) =>
    page.evaluate(
      ({ url, workerUrl, persist }) =>
        library.load("it", url, {
          workerUrl,
          program: "webgpu-f16", // compiled above: no other driver work
          ...(persist === undefined ? {} : { persist }),
        }),
      { url, workerUrl: `${other.proxy.url}/test/assets/${script}`, persist },
    );

  beforeAll(async () => {
    session = await openSession("lavapipe");
    other = await openSession("lavapipe");
    page = await session.page();
    script = readdirSync(join(PAGES, "assets")).find((name) => /^worker-.*\.js$/.test(name)) ?? "";
    session.proxy.shared = true; // a page without the app's policy, which has no workers of blobs
    await page.goto(`${session.proxy.url}/test/library.html`);
    await page.waitForFunction(() => "library" in globalThis);
    await page.evaluate(() => {
      const asked = { times: 0 };
      Object.assign(globalThis, { asked });
      StorageManager.prototype.persist = async () => {
        asked.times += 1;
        return false;
      };
    });
  });
  afterAll(async () => {
    await other?.close();
    await session?.close();
  });

  it("is refused with what to do where that origin does not allow it", async () => {
    expect(await load("/bundles/demo-q4/")).toMatchObject({
      error: { code: "worker.failed", remedy: expect.stringContaining(other.proxy.url) },
    });
  });

  it("answers where it does, and asks that its weights are kept", async () => {
    other.proxy.shared = true;
    expect(await load("/bundles/demo-q4/")).toMatchObject({ value: { storage: "opfs" } });
    const answer = await page.evaluate(() =>
      library.generate("it", [1, 2, 3], { maxTokens: 2, temperature: 0, ignoreEos: true }),
    );
    expect(answer).toHaveProperty("value");
    expect(await page.evaluate(() => Reflect.get(globalThis, "asked").times)).toBe(2);
  });

  it("asks for nothing where it is told not to", async () => {
    other.proxy.shared = false;
    await load("/bundles/demo-q4/", false);
    expect(await page.evaluate(() => Reflect.get(globalThis, "asked").times)).toBe(2);
  });
});
