/** What programs that use subgroups rely on, and WebGPU does not promise. */

import { type Gpu, scoped } from "./gpu.ts";

/** Sizes of workgroups tried: a driver may choose another width for each. */
const THREADS = [64, 256] as const;
const WIDTHS: ReadonlySet<number> = new Set([4, 8, 16, 32, 64, 128]);

/** Writes the width of each thread's subgroup, 0 where threads are not numbered in their order. */
const code = (threads: number) => `enable subgroups;
@group(0) @binding(0) var<storage, read_write> out : array<u32>;
@compute @workgroup_size(${threads})
fn probe(@builtin(local_invocation_index) t : u32, @builtin(subgroup_invocation_id) id : u32) {
  let width = subgroupAdd(1u);
  let first = subgroupMin(t);
  out[t] = select(0u, width, t - first == id && id < width && first % width == 0u);
}
`;

/**
 * Whether the threads of a subgroup are neighbours in the workgroup, and their number a power of two
 * from 4 to 128.
 *
 * @throws EdgewiseError `device.lost`.
 */
export async function neighboursAreTogether(gpu: Gpu): Promise<boolean> {
  for (const threads of THREADS) if (!(await together(gpu, threads))) return false;
  return true;
}

async function together(gpu: Gpu, threads: number): Promise<boolean> {
  const { device } = gpu;
  const size = threads * 4;
  const made: GPUBuffer[] = [];
  const buffer = (usage: GPUBufferUsageFlags) => {
    const one = device.createBuffer({ size, usage });
    made.push(one);
    return one;
  };
  try {
    const [landing, reported] = scoped(gpu, () => {
      const out = buffer(GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
      const landing = buffer(GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
      const module = device.createShaderModule({ code: code(threads) });
      const pipeline = device.createComputePipeline({
        layout: "auto",
        compute: { module, entryPoint: "probe" },
      });
      const group = device.createBindGroup({
        layout: pipeline.getBindGroupLayout(0),
        entries: [{ binding: 0, resource: { buffer: out } }],
      });
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(1);
      pass.end();
      encoder.copyBufferToBuffer(out, 0, landing, 0, size);
      device.queue.submit([encoder.finish()]);
      return landing;
    });
    // A driver that cannot even run this has no subgroups to offer.
    if (await reported) return false;
    await gpu.race(landing.mapAsync(GPUMapMode.READ));
    const widths = new Uint32Array(landing.getMappedRange());
    return widths.every((width) => WIDTHS.has(width) && width === widths[0]);
  } finally {
    for (const one of made) one.destroy();
  }
}
