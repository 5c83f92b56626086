/** Compiling WGSL: each text once per device, a few at a time. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { Program } from "../format/manifest.ts";
import type { Kernel, Plan } from "../format/plan.ts";
import type { Counters } from "./base.ts";
import { type Gpu, scoped } from "./gpu.ts";

/** Pipelines compiled at a time: a browser compiles them in threads of its own. */
const COMPILING = 6;
/** Of a compiler's messages, as many are quoted. */
const MESSAGES = 3;

/** A kernel's WGSL by its path; kernels of several programs share paths. */
export type Shaders = ReadonlyMap<string, string>;

export interface CompileOptions {
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Compile every kernel of a program. Where one fails or `signal` aborts, no more are begun.
 *
 * @throws EdgewiseError `device.kernel` naming the kernel and what the compiler says, `device.lost`,
 *   `bundle.shader`, `load.aborted`.
 */
export async function compileKernels(
  gpu: Gpu,
  program: Program,
  plans: ReadonlyMap<string, Plan>,
  shaders: Shaders,
  counters: Counters,
  { onProgress, signal }: CompileOptions = {},
): Promise<ReadonlyMap<Kernel, GPUComputePipeline>> {
  const jobs = [...plans.values()].flatMap((plan) =>
    [...plan.kernels].map(([name, kernel]) => ({ name, kernel, code: textOf(name) })),
  );
  function textOf(name: string): string {
    const code = shaders.get(program.shaders.get(name) ?? "");
    if (code !== undefined) return code;
    throw new EdgewiseError("bundle.shader", `There is no shader for ${shorten(name)}.`);
  }
  // The longest first: one that is begun last is waited for alone.
  jobs.sort((a, b) => b.code.length - a.code.length);
  const compiled = new Map<Kernel, GPUComputePipeline>();
  let next = 0;
  let done = 0;
  const work = async () => {
    for (let job = jobs[next++]; job; job = jobs[next++]) {
      const { name, kernel, code } = job;
      compiled.set(
        kernel,
        await unlessAborted(pipelineOf(gpu, name, kernel, code, counters), signal),
      );
      done += 1;
      onProgress?.(done, jobs.length);
    }
  };
  checkAborted(signal);
  onProgress?.(0, jobs.length);
  try {
    await Promise.all(Array.from({ length: COMPILING }, work));
  } finally {
    next = jobs.length;
  }
  return compiled;
}

/** @throws EdgewiseError `load.aborted`. */
export function checkAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortedError();
}

function abortedError(): EdgewiseError {
  return new EdgewiseError("load.aborted", "Loading was cancelled.", "Load again to go on.");
}

/** `promise`, or a rejection with `load.aborted` at once. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  let stop = () => {};
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(abortedError());
  });
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function pipelineOf(
  gpu: Gpu,
  name: string,
  kernel: Kernel,
  code: string,
  counters: Counters,
): Promise<GPUComputePipeline> {
  const key = `${kernel.symbol} ${accessOf(kernel)}\n${code}`;
  const known = gpu.pipelines.get(key);
  if (known) return known;
  counters.pipelines += 1;
  const made = compilePipeline(gpu, name, kernel, code);
  made.catch(() => gpu.pipelines.delete(key));
  gpu.pipelines.set(key, made);
  return made;
}

/**
 * Compile a kernel, whatever was compiled before. The device survives a text that is wrong.
 *
 * @param name for people, and for the driver's messages.
 * @throws EdgewiseError `device.kernel`, `device.lost`.
 */
export async function compilePipeline(
  gpu: Gpu,
  name: string,
  kernel: Kernel,
  code: string,
): Promise<GPUComputePipeline> {
  const { device } = gpu;
  const [{ module, pipeline }] = scoped(gpu, () => {
    const layout = layoutOf(gpu, accessOf(kernel));
    const module = device.createShaderModule({ label: name, code });
    const pipeline = device.createComputePipelineAsync({
      label: name,
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module, entryPoint: kernel.symbol },
    });
    return { module, pipeline };
  });
  try {
    return await gpu.race(pipeline);
  } catch (cause) {
    if (cause instanceof EdgewiseError) throw cause;
    const said = await complaints(gpu, module, cause);
    throw new EdgewiseError(
      "device.kernel",
      `The kernel ${shorten(name)} does not compile: ${said}`,
      "Compile the model again with this version of edgewise.",
      { cause },
    );
  }
}

/** What the compiler says about a text, or what the driver says where the text is well-formed. */
async function complaints(gpu: Gpu, module: GPUShaderModule, cause: unknown): Promise<string> {
  const { messages } = await gpu.race(module.getCompilationInfo());
  const errors = messages.filter(({ type }) => type === "error").slice(0, MESSAGES);
  if (errors.length > 0) {
    return errors.map(({ lineNum, message }) => `line ${lineNum}: ${message}`).join("; ");
  }
  return cause instanceof Error ? cause.message : String(cause);
}

/** A letter for each argument: read, or written. */
export function accessOf(kernel: Kernel): string {
  return kernel.args.map((arg) => (arg.access === "read" ? "r" : "w")).join("");
}

/** The layout of a kernel's bind group: its arguments, and the uniform after them. */
export function layoutOf(gpu: Gpu, access: string): GPUBindGroupLayout {
  const known = gpu.layouts.get(access);
  if (known) return known;
  const types: GPUBufferBindingType[] = [...access].map((letter) =>
    letter === "r" ? "read-only-storage" : "storage",
  );
  const layout = gpu.device.createBindGroupLayout({
    entries: [...types, "uniform" as const].map((type, binding) => ({
      binding,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type },
    })),
  });
  gpu.layouts.set(access, layout);
  return layout;
}
