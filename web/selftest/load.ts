/** Loads programs of a bundle for the self-test, in this page: one at a time, weights included. */
import { probe } from "../device/adapter.ts";
import type { LoadedProgram } from "../device/base.ts";
import { type Gpu, openGpu } from "../device/gpu.ts";
import { loadProgram } from "../device/webgpu.ts";
import { EdgewiseError } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import { fitting } from "../format/programs.ts";
import { groupsOf, pagedState } from "../format/state.ts";
import { openStore, type Store } from "../store/store.ts";
import { BundleFiles } from "../worker/bundle.ts";
import { uploadWeights, weightPieces } from "../worker/weights.ts";
import { PAGES } from "./scenario.ts";

export interface Bench {
  readonly gpu: Gpu;
  readonly files: BundleFiles;
  /** Every WebGPU program of the bundle that this adapter runs. */
  readonly programs: readonly Program[];
  load(program: Program, tell: (what: string) => void): Promise<LoadedProgram>;
}

/** Opens the adapter and a bundle's manifest. */
export async function openBench(url: string, signal: AbortSignal): Promise<Bench> {
  const { report, adapter } = await probe(navigator.gpu);
  if (!adapter) throw new EdgewiseError("device.adapter", report.reason);
  const gpu = await openGpu(adapter, report);
  const store = await openStore();
  const files = await BundleFiles.open(new URL(url, location.href).href, store, signal);
  const programs = fitting(files.manifest, gpu.features);
  return {
    gpu,
    files,
    programs,
    load: (program, tell) => load(gpu, files, store, program, tell, signal),
  };
}

async function load(
  gpu: Gpu,
  files: BundleFiles,
  store: Store,
  program: Program,
  tell: (what: string) => void,
  signal: AbortSignal,
): Promise<LoadedProgram> {
  const { manifest } = files;
  pagedState(manifest); // No device can run what this refuses.
  const loaded = await loadProgram(gpu, {
    manifest,
    program,
    plans: await files.allPlans(program),
    shaders: await files.allShaders(program),
    loadSymbols: new Map([["pages", PAGES * groupsOf(manifest)]]),
    onProgress: (done, total) => tell(`compiling kernels: ${done} of ${total}`),
    signal,
  });
  try {
    const { pieces, bytes } = weightPieces(manifest, loaded, files.base);
    let done = 0;
    await uploadWeights(loaded, pieces, store, {
      signal,
      onBytes(count) {
        done += count;
        tell(`reading weights: ${Math.round((100 * done) / bytes)} %`);
      },
      onWarning: (_, message) => tell(message),
    });
    return loaded;
  } catch (error) {
    loaded.close();
    throw error;
  }
}
