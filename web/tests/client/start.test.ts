import { resolveObjectURL } from "node:buffer";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startWorker } from "../../client/start.ts";

const PAGE = "https://app.example/chat/index.html";
const CDN = "https://cdn.example/edgewise/index.js";

/** What browsers do: workers of scripts of other origins are refused. */
class PageWorker extends EventTarget {
  readonly script: string;

  constructor(script: string | URL, options: WorkerOptions) {
    super();
    this.script = String(script);
    expect(options).toEqual({ type: "module", name: "edgewise" });
    if (this.script.startsWith("https:") && !this.script.startsWith("https://app.example/")) {
      throw new DOMException(`Script at '${script}' cannot be accessed`, "SecurityError");
    }
  }
}

beforeEach(() => {
  vi.stubGlobal("Worker", PageWorker);
  vi.stubGlobal("location", new URL(PAGE));
  vi.stubGlobal("document", { baseURI: PAGE });
});
afterEach(() => vi.unstubAllGlobals());

const started = (url?: string | URL, here?: string) => {
  const { worker, remedy } = startWorker(url, here);
  return { worker, remedy, script: (worker as unknown as PageWorker).script };
};

describe("a worker's script", () => {
  it.each([
    ["/worker.js", "https://app.example/worker.js"],
    ["worker.js", "https://app.example/chat/worker.js"],
    [new URL("https://app.example/w.js"), "https://app.example/w.js"],
    ["blob:https://app.example/1", "blob:https://app.example/1"],
  ])("of the page's own origin is its script: %s", (url, script) => {
    const made = started(url);
    expect(made.script).toBe(script);
    expect(made.remedy).toContain("served beside the page");
  });

  it.each([
    ["that is named", "https://cdn.example/w.js", PAGE, "https://cdn.example/w.js"],
    ["beside a library from there", undefined, CDN, "https://cdn.example/edgewise/worker.js"],
  ])("of another origin, %s, is imported by one of the page's", async (_, url, here, script) => {
    const made = started(url, here);
    expect(await resolveObjectURL(made.script)?.text()).toBe(`import "${script}";\n`);
    for (const word of [script, "Access-Control-Allow-Origin", "blob:", "workerUrl"]) {
      expect(made.remedy).toContain(word);
    }
    made.worker.dispatchEvent(new Event("message"));
    expect(resolveObjectURL(made.script)).toBeUndefined();
  });

  it("that the browser refuses at once is an error with what to do", () => {
    class Denied {
      constructor() {
        throw new DOMException("denied by the policy", "SecurityError");
      }
    }
    vi.stubGlobal("Worker", Denied);
    const refused = expect.objectContaining({
      name: "EdgewiseError",
      code: "worker.failed",
      message: "The engine's worker cannot start: denied by the policy",
      remedy: expect.stringContaining("https://cdn.example"),
    });
    expect(() => startWorker("https://cdn.example/w.js")).toThrowError(refused);
  });
});
