/** A GPU device, opened with what programs use, and what happens when it is lost. */

import type { AdapterReport } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import { FEATURES } from "./adapter.ts";
import { isLate, nudging, systemTimer } from "./nudge.ts";
import { neighboursAreTogether } from "./subgroups.ts";
import { answered, type Waiting, Watchdog } from "./watchdog.ts";

const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupStorageSize",
  "maxStorageBuffersPerShaderStage",
] as const;

/** What a loss makes fail may fail this many milliseconds before the loss is heard of. */
const NEWS_MS = 100;
/** Milliseconds of what is waited for in loading, at least: until then nobody is nudged. */
const NUDGE_MS = 1;

/** An open device. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly report: AdapterReport;
  /** What programs may need, by the names they use. */
  readonly features: ReadonlySet<string>;
  /** Resolves with `device.lost` should that happen; never after `close`. */
  readonly lost: Promise<EdgewiseError>;
  /** Why nothing can be done with it any more: `device.lost` or `device.closed`. */
  ended(): EdgewiseError | null;
  /**
   * `promise`, or a rejection as `ended` says: drivers need not settle what they dropped. A device
   * that settles nothing for too long is given up: it is lost.
   */
  race<T>(promise: Promise<T>, waiting?: Waiting): Promise<T>;
  /**
   * Find out whether the browser is late to tell of work that is done, and if so make it look for what
   * is waited for, until the function that this brings is called: loading is many short waits.
   */
  hurry(): Promise<() => void>;
  /** Pipelines by WGSL and entry point, each compiled once. */
  readonly pipelines: Map<string, Promise<GPUComputePipeline>>;
  /** Bind group layouts by the access of their buffers. */
  readonly layouts: Map<string, GPUBindGroupLayout>;
  close(): void;
}

/**
 * Open an adapter's device with all its limits.
 *
 * @throws EdgewiseError `device.open`, `device.lost`.
 */
export async function openGpu(adapter: GPUAdapter, report: AdapterReport): Promise<Gpu> {
  let device: GPUDevice;
  try {
    const asked = adapter.requestDevice({
      label: "edgewise",
      requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
      requiredLimits: Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])),
    });
    device = await answered(asked, (seconds) => new Error(`no answer in ${seconds} seconds`));
  } catch (cause) {
    throw EdgewiseError.from(
      cause,
      "device.open",
      `${report.name} does not open`,
      "Close other tabs that use the GPU, or restart the browser.",
    );
  }
  const features = new Set(report.features);
  const gpu = watch(device, report, features);
  try {
    if (features.has("subgroups") && !(await neighboursAreTogether(gpu))) {
      features.delete("subgroups");
    }
  } catch (error) {
    gpu.close();
    throw error;
  }
  return gpu;
}

/**
 * Make things on a device. What it reports about them, if anything, is the promise's, and no reason
 * to give the device up.
 *
 * @param make synchronous: scopes of errors nest, so nothing else may come between.
 */
export function scoped<T>(gpu: Gpu, make: () => T): readonly [T, Promise<GPUError | null>] {
  const { device } = gpu;
  device.pushErrorScope("validation");
  device.pushErrorScope("out-of-memory");
  let made: T;
  let scopes: Promise<(GPUError | null)[]>;
  try {
    made = make();
  } finally {
    scopes = gpu.race(Promise.all([device.popErrorScope(), device.popErrorScope()]));
    scopes.catch(() => {}); // heard of where the result is awaited
  }
  const reported = scopes.then(([full, invalid]) => full ?? invalid ?? null);
  reported.catch(() => {});
  return [made, reported];
}

function watch(device: GPUDevice, report: AdapterReport, features: ReadonlySet<string>): Gpu {
  let ended: EdgewiseError | null = null;
  let tell: (error: EdgewiseError) => void = () => {};
  const lost = new Promise<EdgewiseError>((resolve) => {
    tell = resolve;
  });
  // Not `lost.then` for each: that would keep every promise ever raced as long as the device.
  const waiting = new Set<(error: EdgewiseError) => void>();
  const watchdog = new Watchdog((seconds) => {
    lose(`it has not answered for ${seconds} seconds`);
    device.destroy();
  });
  const end = (error: EdgewiseError) => {
    ended = error;
    watchdog.end();
    for (const reject of waiting) reject(error);
    waiting.clear();
  };
  const lose = (why: string) => {
    if (ended) return;
    const error = lostError(report, why);
    tell(error);
    end(error);
  };
  void device.lost.then(({ reason, message }) => lose(message || reason));
  device.addEventListener("uncapturederror", (event) => {
    // Nothing of ours is left outside an error scope but launches: their results cannot be trusted.
    event.preventDefault();
    lose(event.error.message);
    // Not here: a driver may report from inside the call that is wrong, with its locks held.
    setTimeout(() => device.destroy());
  });
  let late = false;
  const nudge = () => {
    if (!ended) device.queue.submit([]);
  };
  const race = <T>(promise: Promise<T>, kind: Waiting = "making"): Promise<T> =>
    new Promise((resolve, reject) => {
      let arrived = () => {};
      let calm = () => {};
      const settle = () => {
        waiting.delete(reject);
        arrived();
        calm();
      };
      promise.then(
        (value) => {
          settle();
          resolve(value);
        },
        (error: unknown) => {
          const fail = () => {
            settle();
            reject(error); // in vain where `reject` has been called because of a loss
          };
          if (isWrongShader(error)) fail();
          else setTimeout(fail, NEWS_MS);
        },
      );
      if (ended) return reject(ended);
      waiting.add(reject);
      arrived = watchdog.begin(kind);
      if (late && kind !== "making") calm = nudging(nudge, NUDGE_MS, systemTimer);
    });
  return {
    device,
    report,
    features,
    lost,
    ended: () => ended,
    race,
    async hurry() {
      late = await isLate(() => race(device.queue.onSubmittedWorkDone()), systemTimer);
      return () => {
        late = false;
      };
    },
    pipelines: new Map(),
    layouts: new Map(),
    close() {
      if (!ended) end(new EdgewiseError("device.closed", `${report.name} is closed.`));
      device.destroy();
    },
  };
}

/** Whether a pipeline failed for what it was asked, whatever became of the device. */
function isWrongShader(error: unknown): boolean {
  return error instanceof Error && "reason" in error && error.reason === "validation";
}

function lostError(report: AdapterReport, why: string): EdgewiseError {
  return new EdgewiseError(
    "device.lost",
    `${report.name} was lost: ${why.trim().replace(/\.$/, "")}.`,
    "Close other tabs that use the GPU and load the model again.",
  );
}
