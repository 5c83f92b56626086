// Type-checks shaders with Tint and builds their pipelines on Dawn's null backend, which needs no
// driver: bindings, workgroup sizes and workgroup memory are held to WebGPU's default limits.
//
// stdin: [{"name", "source", "entry"}, …]. stdout: {name: ["line 3: message", …]}, [] where all is well.

import { create, globals } from "webgpu";

Object.assign(globalThis, globals);

const FEATURES = { f16: "shader-f16", subgroups: "subgroups" };
const BINDING = /@binding\((\d+)\)\s+var<(storage|uniform)(?:,\s*(read|read_write))?>/g;

const gpu = create(["backend=null"]);

async function deviceFor(source) {
  const enabled = [...source.matchAll(/^enable (\w+);/gm)].map((match) => FEATURES[match[1]]);
  const adapter = await gpu.requestAdapter();
  return adapter.requestDevice({ requiredFeatures: enabled });
}

function layout(device, source) {
  const entries = [...source.matchAll(BINDING)].map(([, binding, kind, access]) => ({
    binding: Number(binding),
    visibility: GPUShaderStage.COMPUTE,
    buffer: { type: kind === "uniform" ? kind : access === "read" ? "read-only-storage" : "storage" },
  }));
  const group = device.createBindGroupLayout({ entries });
  return device.createPipelineLayout({ bindGroupLayouts: [group] });
}

async function check({ source, entry }, device) {
  device.pushErrorScope("validation");
  const module = device.createShaderModule({ code: source });
  const { messages } = await module.getCompilationInfo();
  const found = messages.map((message) => `line ${message.lineNum}: ${message.message}`);
  if (found.length === 0) {
    device.createComputePipeline({
      layout: layout(device, source),
      compute: { module, entryPoint: entry },
    });
  }
  const error = await device.popErrorScope();
  return error === null || found.length > 0 ? found : [error.message];
}

const devices = new Map();
const results = {};
const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
for (const shader of JSON.parse(Buffer.concat(chunks).toString("utf8"))) {
  const key = [...shader.source.matchAll(/^enable \w+;/gm)].join();
  if (!devices.has(key)) devices.set(key, await deviceFor(shader.source));
  results[shader.name] = await check(shader, devices.get(key));
}
// Devices keep Node running; a pipe may take the text only after this line.
process.stdout.write(JSON.stringify(results), () => process.exit(0));
