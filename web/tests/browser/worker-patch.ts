/**
 * What tests put into the engine's worker before its own script runs, which has no hooks for them.
 *
 * A page's `Worker` is replaced by one that starts /test/worker.js, served by the proxy, which imports
 * first the patch and then the real script. Page and patch share a channel, so that a test can lose
 * the device or ask what was asked of WebGPU.
 */
import type { Page } from "playwright-core";
import { type DeviceFaults, faultyDevice } from "./faulty-device.ts";
import { faultyStorage, type StorageFault, type StorageTold } from "./faulty-storage.ts";
import { type Lacks, type Told, takeAway } from "./lacks.ts";

/** What the worker asked of WebGPU since the last time it was asked. */
export interface Counts {
  readonly submits: number;
  /** Of them, those of nothing: as many as time lets. */
  readonly nudges: number;
  /** Buffers, bind groups, pipelines, layouts and shader modules made. */
  readonly created: number;
  /** Buffers mapped to be read. */
  readonly mapped: number;
  /** Buffers that have been made and not destroyed, and their bytes. */
  readonly live: { readonly buffers: number; readonly bytes: number };
  /** Since the worker began, where it is late to hear. */
  readonly told?: Told;
  /** Since the worker began, of KV pages; where that may fail. */
  readonly storage?: StorageTold;
}

/** How the browser differs from the real one. */
export interface Patch {
  readonly limits?: Readonly<Record<string, number>>;
  readonly faults?: DeviceFaults;
  /** What the browser lacks, too. */
  readonly lacks?: Lacks;
  /** Whether storage of KV pages may fail: what does is said by `failStorage`. */
  readonly storage?: boolean;
}

const CHANNEL = "edgewise-test";
/** Where a page keeps what is to fail in the workers that it starts. */
const FAULT = "edgewise-test-fault";

/** Scripts that the proxy serves: /test/worker.js for a `script` and /test/patch.js for a `patch`. */
export function patchScript(url: URL): string {
  const patch = url.searchParams.get("patch") ?? "{}";
  if (url.pathname.endsWith("/patch.js")) {
    const { lacks, faults = {}, storage = false }: Patch = JSON.parse(patch);
    const fault = url.searchParams.get("fault") ?? "null";
    const lacking = lacks ? `(${takeAway})(${JSON.stringify(lacks)});\n` : "";
    const faulty = `(${faultyDevice})(${JSON.stringify(faults)});\n`;
    const worker = `(${patchLimits})(${patch});\n(${patchWorker})(${JSON.stringify(CHANNEL)});\n`;
    return `${lacking}${faulty}${storage ? `(${faultyStorage})(${fault});\n` : ""}${worker}`;
  }
  const fault = url.searchParams.get("fault") ?? "null";
  const first = `/test/patch.js?${new URLSearchParams({ patch, fault })}`;
  // Static imports, in this order: a worker that awaits anything misses its first messages.
  const script = url.searchParams.get("script") ?? "";
  return [first, script].map((from) => `import ${JSON.stringify(from)};\n`).join("");
}

/** Makes the workers of a page that is not loaded yet start patched, and its own adapter too. */
export async function patchWorkers(page: Page, patch: Patch = {}): Promise<void> {
  await page.addInitScript(patchPage, { channel: CHANNEL, faultKey: FAULT, patch });
  await page.addInitScript(patchLimits, patch);
  if (patch.lacks) await page.addInitScript(takeAway, patch.lacks);
}

/** Loses the worker's device, as a reset of the driver does, after so many more submits. */
export async function loseDevice(page: Page, afterSubmits = 0): Promise<void> {
  await tell(page, { lose: afterSubmits });
}

/**
 * After so many more submits the device settles nothing any more. A second is a hundredth of one then, for
 * whoever counts seconds by an interval.
 */
export async function hangDevice(page: Page, afterSubmits: number): Promise<void> {
  await tell(page, { hang: afterSubmits });
}

/** What of storage fails in the workers that the page starts from now on, if anything. */
export async function failStorage(page: Page, fault: StorageFault | null): Promise<void> {
  await page.evaluate(([key, fault]) => sessionStorage.setItem(key, JSON.stringify(fault)), [
    FAULT,
    fault,
  ] as const);
}

/** What was asked of WebGPU since the last call. */
export async function takeCounts(page: Page): Promise<Counts> {
  return tell(page, { counts: true });
}

/** What the worker says from now on does not reach the page until it is released. */
export async function holdWorker(page: Page): Promise<void> {
  await page.evaluate(() => (globalThis as unknown as Testing).holdWorker());
}

export async function releaseWorker(page: Page): Promise<void> {
  await page.evaluate(() => (globalThis as unknown as Testing).releaseWorker());
}

interface Testing {
  tellWorker(message: unknown): Promise<Counts>;
  holdWorker(): void;
  releaseWorker(): void;
}

function tell(page: Page, message: unknown): Promise<Counts> {
  return page.evaluate(
    (message) => (globalThis as unknown as Testing).tellWorker(message),
    message,
  );
}

// The functions below run in the browser, from their text: they may use nothing of this file.

function patchPage(given: { channel: string; faultKey: string; patch: Patch }): void {
  const { channel, faultKey, patch } = given;
  const Real = globalThis.Worker;
  let held: (() => void)[] | null = null;
  globalThis.Worker = class extends Real {
    constructor(url: string | URL, options?: WorkerOptions) {
      const script = new URL(url, location.href).href;
      const fault = sessionStorage.getItem(faultKey) ?? "null";
      const query = new URLSearchParams({ script, patch: JSON.stringify(patch), fault });
      super(`/test/worker.js?${query}`, options);
      this.addEventListener("message", (event) => {
        if (!held) return;
        event.stopImmediatePropagation();
        const { data } = event;
        held.push(() => this.dispatchEvent(new MessageEvent("message", { data })));
      });
    }
  };
  const talk = new BroadcastChannel(channel);
  Object.assign(globalThis, {
    holdWorker: () => {
      held ??= [];
    },
    releaseWorker: () => {
      const waiting = held ?? [];
      held = null;
      for (const say of waiting) say();
    },
    tellWorker: (message: unknown) =>
      new Promise((resolve) => {
        talk.onmessage = ({ data }) => resolve(data);
        talk.postMessage(message);
      }),
  });
}

function patchLimits({ limits }: Patch): void {
  if (!limits || !globalThis.GPUAdapter) return;
  const real = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, "limits")?.get;
  Object.defineProperty(GPUAdapter.prototype, "limits", {
    get(this: GPUAdapter) {
      const all = real?.call(this);
      return new Proxy(all, { get: (_, name) => limits[String(name)] ?? all[name] });
    },
  });
}

function patchWorker(channel: string): void {
  const devices: GPUDevice[] = [];
  const counts = { submits: 0, nudges: 0, created: 0, mapped: 0 };
  let loseAfter = Number.POSITIVE_INFINITY;
  const lose = () => {
    loseAfter = Number.POSITIVE_INFINITY;
    for (const device of devices.splice(0)) device.destroy();
  };
  // biome-ignore lint/suspicious/noExplicitAny: methods are wrapped whatever they take
  type Method = (...args: any[]) => any;
  const around = (
    prototype: object,
    name: string,
    before: (...args: unknown[]) => void,
    after: (made: never) => void,
  ) => {
    const real: Method = Reflect.get(prototype, name);
    Reflect.set(prototype, name, function (this: unknown, ...args: unknown[]) {
      before(...args);
      const made = real.apply(this, args);
      after(made as never);
      return made;
    });
  };
  const nothing = () => {};
  const makers = ["Buffer", "BindGroup", "BindGroupLayout", "PipelineLayout", "ShaderModule"];
  for (const maker of [...makers, "ComputePipeline", "ComputePipelineAsync", "QuerySet"]) {
    around(GPUDevice.prototype, `create${maker}`, () => (counts.created += 1), nothing);
  }
  const live = new Set<GPUBuffer>();
  around(GPUDevice.prototype, "createBuffer", nothing, (made: GPUBuffer) => live.add(made));
  const { destroy } = GPUBuffer.prototype;
  GPUBuffer.prototype.destroy = function () {
    live.delete(this);
    return destroy.call(this);
  };
  around(GPUBuffer.prototype, "mapAsync", () => (counts.mapped += 1), nothing);
  const submitting = (buffers: unknown) => {
    const nudge = Array.isArray(buffers) && buffers.length === 0;
    counts.submits += 1;
    if (nudge) counts.nudges += 1;
    else loseAfter -= 1;
  };
  const submitted = () => {
    if (loseAfter <= 0) lose();
  };
  around(GPUQueue.prototype, "submit", submitting, submitted);
  around(GPUAdapter.prototype, "requestDevice", nothing, (made: Promise<GPUDevice>) => {
    void made.then((device) => devices.push(device), nothing);
  });
  const talk = new BroadcastChannel(channel);
  talk.onmessage = ({ data }) => {
    if (data.lose === 0) lose();
    else if (data.lose) loseAfter = data.lose;
    else if (data.hang) Reflect.get(globalThis, "hangAfter")(data.hang);
    const held = { buffers: live.size, bytes: [...live].reduce((sum, { size }) => sum + size, 0) };
    const { told, storageTold: storage } = globalThis as { told?: unknown; storageTold?: unknown };
    talk.postMessage({ ...counts, live: held, told, storage });
    Object.assign(counts, { submits: 0, nudges: 0, created: 0, mapped: 0 });
  };
}
