/** What the browser and its adapter say of themselves, for whoever reads a report elsewhere. */
import type { Told } from "../client/machine.ts";
import { usage } from "../store/store.ts";

/** Everything that WebGPU tells here, more than programs ask for. */
export interface Environment {
  readonly features: readonly string[];
  /** What shaders may use without asking for it. */
  readonly languageFeatures: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  readonly preferredFormat: string;
  readonly cores: number;
  /** Gigabytes as the browser rounds them; null where it does not say. */
  readonly memoryGb: number | null;
  /** Bytes that the origin may keep, and those it keeps; null where the browser does not say. */
  readonly quota: number | null;
  readonly usage: number | null;
}

/** Limits of another make than numbers, or that nothing in a report is about, are left out. */
const SHOWN =
  /^max(?:BufferSize|StorageBufferBindingSize|Compute\w+|StorageBuffersPerShaderStage|BindGroups)$/;

/** Ask for all of it. Nothing is sent anywhere. */
export async function environment(gpu: GPU): Promise<Environment> {
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  const space = await usage();
  const told: Told = navigator;
  return {
    features: adapter ? [...adapter.features].sort() : [],
    languageFeatures: [...(gpu.wgslLanguageFeatures ?? [])].sort(),
    limits: adapter ? limitsOf(adapter.limits) : {},
    preferredFormat: gpu.getPreferredCanvasFormat(),
    cores: navigator.hardwareConcurrency,
    memoryGb: told.deviceMemory ?? null,
    quota: space?.quota ?? null,
    usage: space?.usage ?? null,
  };
}

function limitsOf(limits: GPUSupportedLimits): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name in limits) {
    const value: unknown = Reflect.get(limits, name);
    if (SHOWN.test(name) && typeof value === "number") found[name] = value;
  }
  return found;
}
