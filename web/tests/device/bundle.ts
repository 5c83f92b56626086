/**
 * A program small enough to know by heart, in the format of bundles.
 *
 * `scale` writes x[row] = weight * (row + 1) for `n` rows and the sum of its first row; `tick`, which
 * repeats, adds 1 to count[0], n to count[1] and x[0][0] to the state.
 */

import type { BundleManifest, Program } from "../../format/manifest.ts";
import type { Plan } from "../../format/plan.ts";
import { parsePlan } from "../../format/plan-reader.ts";

export const WEIGHT = [0.5, 1, 1.5, 2];
export const ROWS = 64;

const STEP = { name: "step", role: "input", dtype: "int32", shape: [8], bytes: 32 };
const X = { name: "x", role: "output", dtype: "float32", shape: [ROWS, 4], bytes: ROWS * 16 };
const BUFFERS = {
  step: STEP,
  x: X,
  weight: { name: "weight", role: "param", dtype: "float32", shape: [4], bytes: 16 },
  // Three bytes: what is uploaded to it ends between two words.
  odd: { name: "odd", role: "param", dtype: "uint8", shape: [3], bytes: 3 },
  halves: { name: "halves", role: "output", dtype: "float16", shape: [3, 3], bytes: 18 },
  count: { name: "count", role: "input", dtype: "int32", shape: [2], bytes: 8 },
  state: {
    name: "state",
    role: "state",
    dtype: "float32",
    shape: ["pages", 16],
    bytes: ["mul", "pages", 64],
  },
  sum: { name: "sum", role: "scratch", dtype: "uint8", shape: [4], bytes: 4 },
  total: { name: "total", role: "output", dtype: "float32", shape: [1], bytes: 4 },
} as const;

const SYMBOLS = [
  { name: "pages", kind: "load", min: 1, max: 1 << 26 },
  { name: "n", kind: "step", min: 1, max: ROWS },
  { name: "b", kind: "step", min: 1, max: 8 },
  { name: "r", kind: "step", min: 1, max: 8 },
  { name: "t", kind: "step", min: 1, max: 1024 },
];

const arg = (name: string, dtype: string, shape: readonly unknown[], access: string) => ({
  name,
  dtype,
  shape,
  access,
});

const KERNELS = {
  scale: {
    symbol: "scale_kernel",
    args: [
      arg("weight", "float32", [4], "read"),
      arg("x", "float32", [ROWS, 4], "write"),
      arg("step", "int32", [8], "read"),
    ],
  },
  sum: {
    symbol: "sum_kernel",
    args: [arg("x", "float32", [ROWS, 4], "read"), arg("sum", "float32", [1], "write")],
  },
  keep: {
    symbol: "keep_kernel",
    args: [arg("sum", "float32", [1], "read"), arg("total", "float32", [1], "write")],
  },
  tick: {
    symbol: "tick_kernel",
    args: [
      arg("x", "float32", [ROWS, 4], "read"),
      arg("count", "int32", [2], "readwrite"),
      arg("state", "float32", ["pages", 16], "readwrite"),
      arg("step", "int32", [8], "read"),
    ],
  },
} as const;

type KernelName = keyof typeof KERNELS;
type BufferName = keyof typeof BUFFERS;

const LAST = (binding: number) => `struct PODArgs {
  packGridDimX: u32
}
@group(0) @binding(${binding}) var<uniform> podArgs : PODArgs;
`;

const STORAGE = (binding: number, access: string, name: string, type: string) =>
  `@group(0) @binding(${binding}) var<storage, ${access}> ${name} : array<${type}>;\n`;

/** WGSL by path. `sum` has a line that only browsers know. */
export const SHADERS: ReadonlyMap<string, string> = new Map([
  [
    "scale.wgsl",
    `${STORAGE(0, "read", "weight", "f32")}${STORAGE(1, "read_write", "x", "f32")}${STORAGE(2, "read", "step", "i32")}${LAST(3)}
@compute @workgroup_size(4)
fn scale_kernel(
  @builtin(workgroup_id) block : vec3<u32>,
  @builtin(local_invocation_id) thread : vec3<u32>
) {
  if (block.x > podArgs.packGridDimX || i32(block.x) >= step[0]) { return; }
  x[block.x * 4 + thread.x] = weight[thread.x] * f32(block.x + 1);
}
`,
  ],
  [
    "sum.wgsl",
    `enable subgroups;
${STORAGE(0, "read", "x", "f32")}${STORAGE(1, "read_write", "sum", "f32")}${LAST(2)}
@compute @workgroup_size(4)
fn sum_kernel(
  @builtin(workgroup_id) block : vec3<u32>,
  @builtin(local_invocation_id) thread : vec3<u32>
) {
  let all = subgroupAdd(x[thread.x]);
  if (block.x <= podArgs.packGridDimX && thread.x == 0) { sum[0] = all; }
}
`,
  ],
  [
    "keep.wgsl",
    `${STORAGE(0, "read", "sum", "f32")}${STORAGE(1, "read_write", "total", "f32")}${LAST(2)}
@compute @workgroup_size(1)
fn keep_kernel(@builtin(workgroup_id) block : vec3<u32>) {
  if (block.x <= podArgs.packGridDimX) { total[0] = sum[0]; }
}
`,
  ],
  [
    "tick.wgsl",
    `${STORAGE(0, "read", "x", "f32")}${STORAGE(1, "read_write", "count", "i32")}${STORAGE(2, "read_write", "state", "f32")}${STORAGE(3, "read", "step", "i32")}${LAST(4)}
@compute @workgroup_size(1)
fn tick_kernel(@builtin(workgroup_id) block : vec3<u32>) {
  if (block.x > podArgs.packGridDimX) { return; }
  count[0] += 1;
  count[1] += step[0];
  state[0] += x[0];
}
`,
  ],
]);

interface StepOf {
  readonly kernel: KernelName;
  readonly buffers: readonly BufferName[];
  readonly grid?: readonly unknown[];
}

function planOf(name: string, steps: readonly StepOf[], maxBurst = 1): Plan {
  const used = new Set<BufferName>(["step", "odd", "halves", "count", "state"]);
  for (const { buffers } of steps) for (const buffer of buffers) used.add(buffer);
  const json = {
    version: 4,
    name,
    target: "webgpu",
    max_burst: maxBurst,
    symbols: SYMBOLS,
    buffers: [...used].map((buffer) => BUFFERS[buffer]),
    kernels: Object.fromEntries(steps.map(({ kernel }) => [kernel, KERNELS[kernel]])),
    steps: steps.map(({ kernel, buffers, grid = [1, 1, 1] }) => {
      const accesses = KERNELS[kernel].args.map(({ access }) => access);
      return {
        kernel,
        bindings: buffers.map((buffer) => ({ buffer, offset: 0 })),
        grid,
        reads: buffers.filter((_, i) => accesses[i] !== "write"),
        writes: buffers.filter((_, i) => accesses[i] !== "read"),
        label: `all.${kernel}`,
      };
    }),
  };
  return parsePlan(new TextEncoder().encode(JSON.stringify(json)));
}

const TICK: StepOf = { kernel: "tick", buffers: ["x", "count", "state", "step"] };
const SCALE: StepOf = { kernel: "scale", buffers: ["weight", "x", "step"], grid: ["n", 1, 1] };

/** `scale`; `tick`, up to 8 times a call; `both`, which shares their kernels. */
export function plans(): Map<string, Plan> {
  const scale: readonly StepOf[] = [
    SCALE,
    { kernel: "sum", buffers: ["x", "sum"] },
    { kernel: "keep", buffers: ["sum", "total"] },
  ];
  return new Map([
    ["scale", planOf("scale", scale)],
    ["tick", planOf("tick", [TICK, TICK], 8)],
    ["both", planOf("both", [SCALE, TICK])],
  ]);
}

export const PROGRAM: Program = {
  id: "small",
  target: "webgpu",
  arithmetic: "f32",
  layout: "gpu",
  needs: { arch: null, features: ["subgroups"] },
  library: null,
  plans: new Map(),
  entries: new Map(),
  stateDtype: "float32",
  pageBytes: [],
  decodeAgrees: false,
  shaders: new Map(Object.keys(KERNELS).map((name) => [name, `${name}.wgsl`])),
  signature: null,
};

const SIZES = { hidden: 4, layers: 1, heads: 1, kvHeads: 1, headDim: 4, intermediate: 4 };

export const MANIFEST: BundleManifest = {
  name: "small",
  model: {
    family: "small",
    vocab: 16,
    context: 1024,
    maxBatch: 8,
    prefillChunk: ROWS,
    bos: null,
    eos: [],
    quant: "f32",
    recipe: null,
    ...SIZES,
  },
  weightsId: "",
  createdBy: new Map(),
  stateGroups: [],
  layouts: new Map(),
  programs: [PROGRAM],
  files: new Map(),
};
