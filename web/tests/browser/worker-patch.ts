/**
 * What tests put into the engine's worker before its own script runs, which has no hooks for them.
 *
 * A page's `Worker` is replaced by one that starts /test/worker.js, served by the proxy: first the
 * patch, then an import of the real script. Both listen to one channel, so a test can destroy the
 * device or ask for counts from the page.
 */
import type { Page } from "playwright-core";

/** Counts of what the worker asked of WebGPU since the last `reset`. */
export interface Counts {
  readonly submits: number;
  readonly created: number;
  readonly mapped: number;
}

/** Changes of the adapter, for page and worker alike. */
export interface Patch {
  /** Limits as an adapter that has less would state them. */
  readonly limits?: Readonly<Record<string, number>>;
  /** Without storage at all, as in a private window of some browsers. */
  readonly destroyAfterSubmits?: number;
}

const CHANNEL = "edgewise-test";

/** The script of a patched worker: `script` is the real one, `patch` JSON. */
export function workerScript(query: URLSearchParams): string {
  const patch = JSON.parse(query.get("patch") ?? "{}");
  const script = JSON.stringify(query.get("script"));
  // A static import would be evaluated before the patch.
  return `(${patchWorker})(${JSON.stringify(patch)}, ${JSON.stringify(CHANNEL)});\nawait import(${script});\n`;
}

/** Makes workers of a page that is not loaded yet start patched. */
export async function patchWorkers(page: Page, patch: Patch = {}): Promise<void> {
  await page.addInitScript(
    ({ patch, channel }) => {
      const Real = globalThis.Worker;
      globalThis.Worker = class extends Real {
        constructor(url: string | URL, options?: WorkerOptions) {
          const script = new URL(url, location.href);
          const query = new URLSearchParams({ script: script.href, patch: JSON.stringify(patch) });
          super(`/test/worker.js?${query}`, options);
        }
      };
      const talk = new BroadcastChannel(channel);
      Object.assign(globalThis, {
        tellWorker: (message: unknown) =>
          new Promise((resolve) => {
            talk.onmessage = ({ data }) => resolve(data);
            talk.postMessage(message);
          }),
      });
    },
    { patch, channel: CHANNEL },
  );
}

/** Loses the worker's device, as a driver's reset does. */
export async function destroyDevice(page: Page): Promise<void> {
  await tell(page, "destroy");
}

/** What was asked of WebGPU since the last call. */
export async function takeCounts(page: Page): Promise<Counts> {
  return (await tell(page, "counts")) as Counts;
}

function tell(page: Page, message: string): Promise<unknown> {
  return page.evaluate((message) => {
    const { tellWorker } = globalThis as unknown as { tellWorker(m: string): Promise<unknown> };
    return tellWorker(message);
  }, message);
}
