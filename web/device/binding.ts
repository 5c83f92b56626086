/** A program's plans bound to a GPU: launches ready to be encoded, all made once. */

import { EdgewiseError, shorten } from "../errors.ts";
import { STEP_SYMBOLS } from "../format/abi.ts";
import { bounds, compile, type Expr, type Range } from "../format/expr.ts";
import type { Kernel, Plan } from "../format/plan.ts";
import type { Counters } from "./base.ts";
import type { Gpu } from "./gpu.ts";
import { accessOf, layoutOf } from "./kernels.ts";
import { type Buffers, LAST_UNIFORM_BYTES } from "./memory.ts";

/** Symbol values whose grids a plan remembers. */
const MAX_GRIDS = 256;

export type Grid = readonly [number, number, number];

/** What a launch writes: a piece of a buffer, as the kernel sees it. */
export interface Output {
  readonly buffer: string;
  readonly offset: number;
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** One launch of a plan; `grid` is its place among the plan's grids. */
export interface Launch {
  readonly label: string;
  readonly kernel: string;
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly grid: number;
  readonly outputs: readonly Output[];
}

/** A plan whose launches are bound. */
export interface BoundPlan {
  readonly plan: Plan;
  readonly launches: readonly Launch[];
  /** Workgroups of each distinct grid at the values that `step` holds, clamped to their bounds. */
  grids(step: readonly number[]): readonly Grid[];
}

/**
 * Bind every plan of a program; equal bindings share a bind group.
 *
 * @param load values of the load symbols.
 */
export function bindPlans(
  gpu: Gpu,
  buffers: Buffers,
  pipelines: ReadonlyMap<Kernel, GPUComputePipeline>,
  plans: ReadonlyMap<string, Plan>,
  load: ReadonlyMap<string, number>,
  counters: Counters,
): ReadonlyMap<string, BoundPlan> {
  const groups = new Map<string, GPUBindGroup>();
  const bind = (kernel: Kernel, pieces: readonly Piece[]): GPUBindGroup => {
    const access = accessOf(kernel);
    const key = JSON.stringify([access, pieces]);
    let group = groups.get(key);
    if (!group) {
      const entries = pieces.map(({ buffer, offset, size }, binding) => ({
        binding,
        resource: { buffer: buffers.get(buffer), offset, size },
      }));
      const last = { buffer: buffers.last, offset: 0, size: LAST_UNIFORM_BYTES };
      group = gpu.device.createBindGroup({
        layout: layoutOf(gpu, access),
        entries: [...entries, { binding: entries.length, resource: last }],
      });
      groups.set(key, group);
      counters.bindGroups += 1;
    }
    return group;
  };
  return new Map([...plans].map(([name, plan]) => [name, bindPlan(plan, pipelines, load, bind)]));
}

interface Piece {
  readonly buffer: string;
  readonly offset: number;
  readonly size: number;
}

function bindPlan(
  plan: Plan,
  pipelines: ReadonlyMap<Kernel, GPUComputePipeline>,
  load: ReadonlyMap<string, number>,
  bind: (kernel: Kernel, pieces: readonly Piece[]) => GPUBindGroup,
): BoundPlan {
  const ranges = new Map<string, Range>(
    plan.symbols.map(({ name, kind, min, max }) => {
      const value = kind === "load" ? load.get(name) : undefined;
      return [name, value === undefined ? [min, max] : [value, value]];
    }),
  );
  const states = new Set(plan.buffers.filter((b) => b.role === "state").map((b) => b.name));
  const places = new Map<string, number>();
  const expressions: (readonly [Expr, Expr, Expr])[] = [];
  const launches = plan.steps.map((step): Launch => {
    const kernel = plan.kernels.get(step.kernel);
    const pipeline = kernel && pipelines.get(kernel);
    if (!kernel || !pipeline) {
      throw new EdgewiseError("plan.unknown_name", `No kernel is called ${shorten(step.kernel)}.`);
    }
    const key = JSON.stringify(step.grid);
    const grid = places.get(key) ?? expressions.push(step.grid) - 1;
    places.set(key, grid);
    const pieces = kernel.args.map((arg, i) => {
      const { buffer, offset } = step.bindings[i] ?? { buffer: "", offset: 0 };
      return { buffer, offset, size: Math.ceil(bounds(arg.bytes, ranges)[1] / 4) * 4 };
    });
    const outputs = kernel.args.flatMap((arg, i): Output[] => {
      const { buffer, offset } = pieces[i] ?? { buffer: "", offset: 0 };
      if (arg.access === "read" || states.has(buffer)) return [];
      const shape = arg.shape.map((dim) => bounds(dim, ranges)[1]);
      return [{ buffer, offset, dtype: arg.dtype, shape }];
    });
    const group = bind(kernel, pieces);
    return { label: step.label, kernel: step.kernel, pipeline, group, grid, outputs };
  });
  return { plan, launches, grids: gridsOf(plan, expressions, load) };
}

function gridsOf(
  plan: Plan,
  expressions: readonly (readonly [Expr, Expr, Expr])[],
  load: ReadonlyMap<string, number>,
): (step: readonly number[]) => readonly Grid[] {
  const names = plan.symbols.map((symbol) => symbol.name);
  const fields = plan.symbols.map(({ name, kind, min, max }) => ({
    at: kind === "load" ? -1 : STEP_SYMBOLS.indexOf(name),
    min: kind === "load" ? (load.get(name) ?? min) : min,
    max,
  }));
  const compiled = expressions.map((grid) => grid.map((extent) => compile(extent, names)));
  const remembered = new Map<string, readonly Grid[]>();
  return (step) => {
    const values = fields.map(({ at, min, max }) =>
      at < 0 ? min : Math.min(Math.max(step[at] ?? 0, min), max),
    );
    const key = values.join();
    let grids = remembered.get(key);
    if (!grids) {
      grids = compiled.map(
        ([x, y, z]): Grid => [x?.(values) ?? 1, y?.(values) ?? 1, z?.(values) ?? 1],
      );
      if (remembered.size >= MAX_GRIDS) remembered.clear();
      remembered.set(key, grids);
    }
    return grids;
  };
}

/** Encode a plan's launches `k` times; how many there are. */
export function encode(
  bound: BoundPlan,
  pass: GPUComputePassEncoder,
  step: readonly number[],
  k: number,
): number {
  const grids = bound.grids(step);
  let pipeline: GPUComputePipeline | null = null;
  let group: GPUBindGroup | null = null;
  for (let i = 0; i < k; i++) {
    for (const launch of bound.launches) {
      // Setting what is set already costs as much as setting something else.
      if (launch.pipeline !== pipeline) {
        pipeline = launch.pipeline;
        pass.setPipeline(pipeline);
      }
      if (launch.group !== group) {
        group = launch.group;
        pass.setBindGroup(0, group);
      }
      const grid = grids[launch.grid];
      if (grid) pass.dispatchWorkgroups(...grid);
    }
  }
  return bound.launches.length * k;
}
