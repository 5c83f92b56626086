/** A GPU device, opened with what programs use, and what happens when it is lost. */

import type { AdapterReport } from "../client/types.ts";
import { EdgewiseError } from "../errors.ts";
import { FEATURES } from "./adapter.ts";
import { neighboursAreTogether } from "./subgroups.ts";

const LIMITS = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupStorageSize",
  "maxStorageBuffersPerShaderStage",
] as const;

/** An open device. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly report: AdapterReport;
  /** What programs may need, by the names they use. */
  readonly features: ReadonlySet<string>;
  /** Resolves with `device.lost` should that happen; never after `close`. */
  readonly lost: Promise<EdgewiseError>;
  /** `promise`, or a rejection with `device.lost`: drivers need not settle what they dropped. */
  race<T>(promise: Promise<T>): Promise<T>;
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
    device = await adapter.requestDevice({
      label: "edgewise",
      requiredFeatures: FEATURES.filter((feature) => adapter.features.has(feature)),
      requiredLimits: Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])),
    });
  } catch (cause) {
    throw EdgewiseError.from(
      cause,
      "device.open",
      `${report.name} does not open`,
      "Close other tabs that use the GPU, or restart the browser.",
    );
  }
  const gpu = watch(device, report);
  const features = new Set(report.features);
  try {
    if (features.has("subgroups") && !(await neighboursAreTogether(gpu))) {
      features.delete("subgroups");
    }
  } catch (error) {
    gpu.close();
    throw error;
  }
  return { ...gpu, features };
}

function watch(device: GPUDevice, report: AdapterReport): Gpu {
  let closed = false;
  const lost = new Promise<EdgewiseError>((resolve) => {
    void device.lost.then(({ reason, message }) => {
      if (!closed) resolve(lostError(report, message || reason));
    });
    device.addEventListener("uncapturederror", (event) => {
      // Nothing of ours is left outside an error scope but launches: their results cannot be trusted.
      event.preventDefault();
      if (closed) return;
      resolve(lostError(report, event.error.message));
      device.destroy();
    });
  });
  return {
    device,
    report,
    features: new Set(report.features),
    lost,
    race: <T>(promise: Promise<T>): Promise<T> =>
      Promise.race([
        promise.catch((error: unknown) => {
          // What a loss makes fail, fails because of it: the loss may be heard of a little later.
          return Promise.race([lost, later(20)]).then((loss) => {
            throw loss ?? error;
          });
        }),
        lost.then((error) => {
          throw error;
        }),
      ]),
    pipelines: new Map(),
    layouts: new Map(),
    close() {
      closed = true;
      device.destroy();
    },
  };
}

function later(ms: number): Promise<null> {
  return new Promise((resolve) => setTimeout(() => resolve(null), ms));
}

function lostError(report: AdapterReport, why: string): EdgewiseError {
  return new EdgewiseError(
    "device.lost",
    `${report.name} was lost: ${why}.`,
    "Close other tabs that use the GPU and load the model again.",
  );
}
