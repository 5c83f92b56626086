/** Devices that compute something else, are lost by what they run, or stop answering. */

/** What is wrong with a worker's devices. Shaders are told by texts, one of which they have. */
export interface DeviceFaults {
  /** These shaders compute something else. */
  readonly wrong?: readonly string[];
  /** Every device is lost when one of these shaders is run after so many submits. */
  readonly lost?: { readonly shaders: readonly string[]; readonly after: number };
}

/** Puts the faults into the worker that this runs in, from its text: it may use nothing of this file. */
export function faultyDevice({ wrong, lost }: DeviceFaults): void {
  // biome-ignore lint/suspicious/noExplicitAny: methods are wrapped whatever they take
  type Method = (this: any, ...args: any[]) => any;
  const wrap = (target: object, name: string, wrapped: (real: Method) => Method) =>
    Reflect.set(target, name, wrapped(Reflect.get(target, name)));
  const told = (code: string, by: readonly string[] | undefined) =>
    by?.some((text) => code.includes(text)) ?? false;
  const deadly = new WeakSet<object>();
  let device: GPUDevice | null = null;
  let submits = 0;
  let healthy = Number.POSITIVE_INFINITY;
  let hung = false;
  Object.assign(globalThis, {
    hangAfter: (more: number) => {
      healthy = submits + more;
    },
  });

  wrap(
    GPUAdapter.prototype,
    "requestDevice",
    (real) =>
      async function (...args) {
        submits = 0;
        device = await real.apply(this, args);
        return device;
      },
  );
  wrap(
    GPUDevice.prototype,
    "createShaderModule",
    (real) =>
      function (descriptor) {
        const { code } = descriptor;
        const other = told(code, wrong) ? code.replace("fma(", "fma(0.5 * ") : code;
        const module = real.call(this, { ...descriptor, code: other });
        if (told(code, lost?.shaders)) deadly.add(module);
        return module;
      },
  );
  wrap(
    GPUDevice.prototype,
    "createComputePipelineAsync",
    (real) =>
      async function (descriptor) {
        const pipeline = await real.call(this, descriptor);
        if (deadly.has(descriptor.compute.module)) deadly.add(pipeline);
        return pipeline;
      },
  );
  wrap(
    GPUComputePassEncoder.prototype,
    "setPipeline",
    (real) =>
      function (pipeline) {
        if (deadly.has(pipeline) && submits >= (lost?.after ?? 0)) device?.destroy();
        return real.call(this, pipeline);
      },
  );
  wrap(
    GPUQueue.prototype,
    "submit",
    (real) =>
      function (...args) {
        const [[...buffers]] = args;
        if (buffers.length > 0) submits += 1; // not a nudge
        if (submits > healthy) {
          hung = true;
          healthy = Number.POSITIVE_INFINITY;
        }
        return real.apply(this, args);
      },
  );
  for (const [prototype, name] of [
    [GPUBuffer.prototype, "mapAsync"],
    [GPUQueue.prototype, "onSubmittedWorkDone"],
  ] as const) {
    wrap(
      prototype,
      name,
      (real) =>
        function (...args) {
          return hung ? new Promise(() => {}) : real.apply(this, args);
        },
    );
  }
  wrap(
    GPUDevice.prototype,
    "destroy",
    (real) =>
      function () {
        hung = false;
        return real.call(this);
      },
  );
  wrap(
    globalThis,
    "setInterval",
    (real) => (act, ms) =>
      real.call(
        globalThis,
        () => {
          for (let i = 0; i < (hung ? 100 : 1); i++) act();
        },
        ms,
      ),
  );
}
