/** What a test file shares: one browser on one adapter, and one origin. */
import type { Page } from "playwright-core";
import { inject } from "vitest";
import type { DeviceFaults } from "./faulty-device.ts";
import { type AdapterName, launch, type RunningBrowser } from "./launch.ts";
import { type HostProxy, startProxy } from "./proxy.ts";
import { type Patch, patchWorkers } from "./worker-patch.ts";

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

/** A new origin, in a browser of its own or, given one, in a browser that outlives it. */
export async function openSession(where: AdapterName | RunningBrowser): Promise<Session> {
  const proxy = await startProxy(inject("host"));
  const browser = typeof where === "string" ? await launch(where) : where;
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
      if (typeof where === "string") await browser.close();
      else await Promise.all(pages.map((made) => made.close()));
      await proxy.close();
    },
  };
}
