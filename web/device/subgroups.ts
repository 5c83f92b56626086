/** What programs that use subgroups rely on, and WebGPU does not promise. */

import type { Gpu } from "./gpu.ts";

const THREADS = 256;
const WIDTHS: ReadonlySet<number> = new Set([4, 8, 16, 32, 64, 128]);

const CODE = `enable subgroups;
@group(0) @binding(0) var<storage, read_write> out : array<u32>;
@compute @workgroup_size(${THREADS})
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
  const { device } = gpu;
  const size = THREADS * 4;
  const usage = GPUBufferUsage;
  device.pushErrorScope("validation");
  const out = device.createBuffer({ size, usage: usage.STORAGE | usage.COPY_SRC });
  const landing = device.createBuffer({ size, usage: usage.MAP_READ | usage.COPY_DST });
  try {
    const pipeline = device.createComputePipeline({
      layout: "auto",
      compute: { module: device.createShaderModule({ code: CODE }), entryPoint: "probe" },
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
    if (await gpu.race(device.popErrorScope())) return false;
    await gpu.race(landing.mapAsync(GPUMapMode.READ));
    const widths = new Uint32Array(landing.getMappedRange());
    return widths.every((width) => WIDTHS.has(width));
  } finally {
    out.destroy();
    landing.destroy();
  }
}
