/**
 * Loading a bundle, in the order in which things can be refused: the adapter, the program, its
 * memory, and only then the weights, while kernels are compiled.
 */

import type { AdapterReport, EngineInfo } from "../client/types.ts";
import { probe } from "../device/adapter.ts";
import type { LoadedProgram } from "../device/base.ts";
import { type Gpu, openGpu } from "../device/gpu.ts";
import { loadProgram } from "../device/webgpu.ts";
import { firstPages, isSmall, mostPages, poolPages } from "../engine/memory.ts";
import { prove } from "../engine/prove.ts";
import { EdgewiseError } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import type { Proof } from "../format/proof.ts";
import { footprintOf, pagedState } from "../format/state.ts";
import { outstanding } from "../store/download.ts";
import type { Store } from "../store/store.ts";
import { BundleFiles } from "./bundle.ts";
import { fittingPrograms, trusted, without } from "./choice.ts";
import { firstChunk } from "./first-chunk.ts";
import type { LoadRequest } from "./protocol.ts";
import type { Reporter } from "./reporter.ts";
import { type Clock, fastest } from "./tuning.ts";
import { Verdicts } from "./verdicts.ts";
import { uploadWeights, weightPieces } from "./weights.ts";

/** What every WebGPU program may use: the limits that WebGPU promises of any adapter. */
const NEEDED = {
  maxStorageBuffersPerShaderStage: 8,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupStorageSize: 16 << 10,
  maxStorageBufferBindingSize: 128 << 20,
  maxBufferSize: 128 << 20,
} as const;

/** Contexts tried at last, in tokens, where memory is short and nobody asked for a size. */
const LEAST_CONTEXT = 256;

/** Plans that a tab's requests seldom need: they are compiled for the first that does. */
const RARE: ReadonlySet<string> = new Set(["hidden", "logprobs"]);

export interface Loaded {
  readonly files: BundleFiles;
  readonly gpu: Gpu;
  readonly program: LoadedProgram;
  /** Pages that there are, and that there may come to be. */
  readonly pages: number;
  readonly mostPages: number;
  readonly context: number;
  /** Whether memory is short. */
  readonly small: boolean;
  /** Rows of the first chunk of a prompt. */
  readonly firstChunk: number;
  /** Bytes of each role when it was loaded. */
  readonly memory: EngineInfo["memory"];
}

/** How a program is chosen where some have failed before. */
export interface Hints {
  /** Ids of programs that are not to be chosen. */
  readonly avoid: ReadonlySet<string>;
  /** Hears which one is going to be loaded. */
  readonly onProgram?: (id: string) => void;
}

/**
 * A program with its weights on a device, that computes what the bundle says it must: where one does
 * not, the next is taken.
 *
 * @throws EdgewiseError `device.adapter`, `device.limits`, `device.no_program`, `device.memory`,
 *   `device.kernel`, `device.lost`, `device.output` where none computes what it should,
 *   `unsupported.state`, `bundle.*`, `store.*`, `load.aborted`.
 */
export async function load(
  request: LoadRequest,
  store: Store,
  reporter: Reporter,
  signal: AbortSignal,
  { avoid, onProgram }: Hints,
): Promise<Loaded> {
  // Both at once: a device takes a third of a second where a browser has yet to begin with it.
  const opening = adapterGpu();
  const files = await filesOf(request, store, reporter, signal).catch((error: unknown) => {
    opening.then(
      (gpu) => gpu.close(),
      () => {},
    );
    throw error;
  });
  const { manifest } = files;
  reporter.progress("device", 0, 1);
  const gpu = await opening;
  try {
    const calm = await gpu.hurry();
    reporter.progress("device", 1, 1);
    const proof = await files.proof();
    const verdicts = new Verdicts(gpu.report.key, manifest, store);
    let left = await trusted(fittingPrograms(request, manifest, gpu, avoid), verdicts);
    while (true) {
      const chosen = await fastest(gpu, manifest, left, files, store, (done, total) =>
        reporter.progress("tuning", done, total),
      );
      onProgram?.(chosen.id);
      const loaded = await onDevice(request, files, gpu, chosen, store, reporter, signal);
      const wrong = await whatIsWrong(loaded, proof);
      if (!wrong) {
        await verdicts.right(chosen);
        calm();
        return loaded;
      }
      await verdicts.wrong(chosen);
      left = without(left, chosen, gpu.report.name, wrong);
      reporter.warning({
        code: "device.output",
        message: `${gpu.report.name} runs the program ${chosen.id} wrong: another one is used.`,
        remedy: "Update the browser and the GPU's driver.",
      });
    }
  } catch (error) {
    gpu.close();
    throw error;
  }
}

async function filesOf(
  request: LoadRequest,
  store: Store,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<BundleFiles> {
  reporter.progress("manifest", 0, 1);
  const files = await BundleFiles.open(request.url, store, signal);
  pagedState(files.manifest); // No device can run what this refuses.
  reporter.progress("manifest", 1, 1);
  return files;
}

/** What is wrong with a program's answers, null where nothing is or nothing is known of them. */
async function whatIsWrong(
  { program, pages }: Loaded,
  proof: Proof | null,
): Promise<EdgewiseError | null> {
  try {
    if (proof) await prove(program, proof, pages);
    return null;
  } catch (error) {
    program.close();
    if (error instanceof EdgewiseError && error.code === "device.output") return error;
    throw error;
  }
}

async function adapterGpu(): Promise<Gpu> {
  const { report, adapter } = await probe(navigator.gpu);
  if (!adapter) {
    throw new EdgewiseError(
      "device.adapter",
      report.reason,
      "Use a recent Chrome, Edge, Safari or Firefox on a device with a GPU, and turn hardware " +
        "acceleration on.",
    );
  }
  for (const [name, least] of Object.entries(NEEDED)) {
    const has = report.limits[name as keyof AdapterReport["limits"]];
    if (has < least) {
      throw new EdgewiseError(
        "device.limits",
        `${report.name} allows ${name} of ${has}; models need ${least}.`,
        "Use a device with a larger GPU, or another browser.",
      );
    }
  }
  return openGpu(adapter, report);
}

async function onDevice(
  request: LoadRequest,
  files: BundleFiles,
  gpu: Gpu,
  chosen: Program,
  store: Store,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<Loaded> {
  const { manifest } = files;
  const footprint = footprintOf(manifest);
  const plans = await files.allPlans(chosen);
  const shaders = await files.allShaders(chosen);
  const { limits } = gpu.report;
  const largest = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize);
  let context = contextOf(request, manifest.model.context);
  let small = isSmall(request.machine, limits.maxBufferSize);
  const runs = { manifest, program: chosen, plans, shaders };
  const clock: Clock = async (kernel) => {
    const { timeKernel } = await import("../device/timing.ts");
    return timeKernel(gpu, kernel);
  };
  const rows = await firstChunk(gpu.report, runs, store, clock);
  while (true) {
    try {
      const least = request.context ?? LEAST_CONTEXT;
      const wanted = poolPages(manifest, chosen, context, null, largest, least);
      const most = mostPages(chosen, footprint, context, wanted);
      const pages = firstPages(chosen, footprint, most, small);
      // Of two things at once that is told of which is said to take longer: bytes, while there are any to come.
      let [weighed, kernels] = [false, [0, 1]];
      const compiling = () => {
        weighed = true;
        reporter.progress("kernels", kernels[0] ?? 0, kernels[1] ?? 1);
      };
      const program = await loadProgram(gpu, {
        ...runs,
        loadSymbols: new Map([["pages", pages]]),
        signal,
        later: RARE,
        fill: async (filled, ending) => {
          await fill(filled, files, store, reporter, ending);
          compiling();
        },
        onProgress: (done, total) => {
          kernels = [done, total];
          if (weighed) compiling();
        },
      });
      const held = footprint.tokens(most, context);
      if (held < context) tellOfContext(reporter, gpu, held);
      const memory = program.memory();
      return {
        files,
        gpu,
        program,
        pages,
        mostPages: most,
        context: held,
        small,
        firstChunk: rows,
        memory,
      };
    } catch (error) {
      const tight = error instanceof EdgewiseError && error.code === "device.memory";
      if (tight && !small) {
        small = true; // there may be room for more once it is needed
        continue;
      }
      if (!tight || request.context !== undefined || context <= LEAST_CONTEXT) throw error;
      context = Math.max(LEAST_CONTEXT, context >> 1);
      tellOfContext(reporter, gpu, context);
    }
  }
}

function tellOfContext(reporter: Reporter, gpu: Gpu, tokens: number): void {
  reporter.warning({
    code: "load.context",
    message: `${gpu.report.name} has no room for longer conversations than ${tokens} tokens.`,
    remedy: "Close other tabs, or choose a smaller model.",
  });
}

function contextOf(request: LoadRequest, most: number): number {
  const { context } = request;
  if (context === undefined) return most;
  if (Number.isInteger(context) && context >= 1 && context <= most) return context;
  throw new EdgewiseError(
    "input.context",
    `context is ${context}; it must be a whole number from 1 to ${most}.`,
    "Leave it out for all that the bundle allows.",
  );
}

async function fill(
  program: LoadedProgram,
  files: BundleFiles,
  store: Store,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  const { pieces, bytes } = weightPieces(files.manifest, program, files.base);
  let done = 0;
  let cached = 0;
  reporter.progress("weights", 0, bytes, 0);
  await uploadWeights(program, pieces, store, {
    signal,
    onBytes: (count, fromNetwork) => {
      done += count;
      if (!fromNetwork) cached += count;
      reporter.progress("weights", Math.min(done, bytes), bytes, cached);
    },
    onWarning: (code, message, remedy) => reporter.warning({ code, message, remedy }),
  });
}

/** Most bytes of weights that loaders of this worker held at once. */
export function loaderPeak(): number {
  return outstanding.peak;
}
