/** What a test works with: an origin of its own, in a browser that it shares with others. */
import type { Page } from "playwright-core";
import { inject } from "vitest";
import type { DeviceFaults } from "./faulty-device.ts";
import { type AdapterName, launch, type RunningBrowser } from "./launch.ts";
import { type HostProxy, startProxy } from "./proxy.ts";
import { type Patch, patchWorkers } from "./worker-patch.ts";

const shared = new Map<AdapterName, Promise<RunningBrowser>>();

/**
 * The browser on an adapter that all test files share, since starting one and compiling for it anew is what
 * tests took most of their time for. It ends with their process.
 */
function sharedBrowser(adapter: AdapterName): Promise<RunningBrowser> {
  const running = shared.get(adapter) ?? launch(adapter, inject("profiles"));
  shared.set(adapter, running);
  return running;
}

export interface Session {
  readonly browser: RunningBrowser;
  readonly proxy: HostProxy;
  /** What pages said that they should not have: exceptions and messages of the policy. */
  readonly complaints: string[];
  /** A new page, not loaded; given a patch, its workers start with it. */
  page(patch?: Patch): Promise<Page>;
  /** A page with `window.library`, its workers patched, their devices faulty where a test asks for it. */
  library(faults?: DeviceFaults): Promise<Page>;
  close(): Promise<void>;
}

/** A new origin, or the one given, in the browser on an adapter that all share, or in the one given. */
export async function openSession(
  where: AdapterName | RunningBrowser,
  origin?: HostProxy,
): Promise<Session> {
  const proxy = origin ?? (await startProxy(inject("host")));
  const browser = typeof where === "string" ? await sharedBrowser(where) : where;
  const pages: Page[] = [];
  const complaints: string[] = [];
  const page = async (patch?: Patch): Promise<Page> => {
    const made = await browser.context.newPage();
    pages.push(made);
    made.on("pageerror", (error) => complaints.push(String(error)));
    made.on("console", (message) => {
      if (message.type() === "error") complaints.push(message.text());
    });
    if (patch) await patchWorkers(made, patch);
    return made;
  };
  return {
    browser,
    proxy,
    complaints,
    page,
    async library(faults = {}) {
      const made = await page({ faults });
      await made.goto(`${proxy.url}/test/library.html`);
      await made.waitForFunction(() => "library" in globalThis);
      return made;
    },
    async close() {
      await browser.context.setOffline(false);
      await Promise.all(pages.map((made) => made.close()));
      await proxy.close();
    },
  };
}
