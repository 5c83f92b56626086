/** What WebGPU offers here, told to people and compared with what programs need. */

import type { AdapterLimits, AdapterReport } from "../client/types.ts";
import { MAX_BINDING } from "../format/abi.ts";
import { answered } from "./watchdog.ts";

/** Adapter features that programs or their timing use. */
export const FEATURES = ["shader-f16", "subgroups", "timestamp-query"] as const;
const LANGUAGE_FEATURE = "packed_4x8_integer_dot_product";

/** Milliseconds before it is asked again for an adapter: a browser has none while its GPU process starts anew. */
const AGAIN_MS = [100, 500] as const;

const NO_LIMITS: AdapterLimits = {
  maxBufferSize: 0,
  maxStorageBufferBindingSize: 0,
  maxComputeInvocationsPerWorkgroup: 0,
  maxComputeWorkgroupStorageSize: 0,
  maxStorageBuffersPerShaderStage: 0,
};

/** The best adapter and what it is. Never rejects: `reason` says why there is none. */
export async function probe(
  gpu: GPU | undefined,
): Promise<{ readonly report: AdapterReport; readonly adapter: GPUAdapter | null }> {
  if (!gpu) {
    return absent(
      globalThis.isSecureContext === false
        ? "WebGPU needs a secure page: open it by https, or on this machine as localhost."
        : "This browser has no WebGPU.",
    );
  }
  try {
    let adapter = await requested(gpu);
    for (const wait of AGAIN_MS) {
      if (adapter) break;
      await new Promise((resolve) => setTimeout(resolve, wait));
      adapter = await requested(gpu);
    }
    if (adapter) return { report: describe(gpu, adapter), adapter };
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    return absent(`This browser refuses WebGPU: ${said.replace(/\.$/, "")}.`);
  }
  return absent("This browser has WebGPU, but no GPU that it would use it on.");
}

function requested(gpu: GPU): Promise<GPUAdapter | null> {
  const asked = gpu.requestAdapter({ powerPreference: "high-performance" });
  return answered(asked, (seconds) => new Error(`no answer in ${seconds} seconds`));
}

function absent(reason: string): { report: AdapterReport; adapter: null } {
  const report: AdapterReport = {
    available: false,
    reason,
    name: "",
    vendor: "",
    architecture: "",
    features: [],
    fallback: false,
    limits: NO_LIMITS,
    subgroupMinSize: null,
    subgroupMaxSize: null,
    key: "none",
  };
  return { report, adapter: null };
}

function describe(gpu: GPU, adapter: GPUAdapter): AdapterReport {
  const { info, limits } = adapter;
  const features: string[] = FEATURES.filter((feature) => adapter.features.has(feature));
  if (gpu.wgslLanguageFeatures?.has(LANGUAGE_FEATURE)) features.push(LANGUAGE_FEATURE);
  const { vendor, architecture } = info;
  const name = info.description || [vendor, info.device || architecture].filter(Boolean).join(" ");
  return {
    available: true,
    reason: "",
    name: name || "unnamed adapter",
    vendor,
    architecture,
    features,
    fallback: info.isFallbackAdapter ?? false,
    limits: {
      maxBufferSize: limits.maxBufferSize,
      maxStorageBufferBindingSize: Math.min(limits.maxStorageBufferBindingSize, MAX_BINDING),
      maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
      maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
      maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
    },
    subgroupMinSize: info.subgroupMinSize ?? null,
    subgroupMaxSize: info.subgroupMaxSize ?? null,
    key: [vendor, architecture, info.device, info.description, ...features].join("/"),
  };
}
