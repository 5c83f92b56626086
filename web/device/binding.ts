/** A program's plans bound to a GPU: launches ready to be encoded, all made once. */

import { EdgewiseError, shorten } from "../errors.ts";
import { STEP_SYMBOLS } from "../format/abi.ts";
import { bounds, compile, type Expr, type Range } from "../format/expr.ts";
import type { Kernel, Plan, Step } from "../format/plan.ts";
import type { Counters } from "./base.ts";
import type { Gpu } from "./gpu.ts";
import { accessOf, layoutOf } from "./kernels.ts";
import { type Buffers, LAST_UNIFORM_BYTES, wordsOf } from "./memory.ts";

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
  /** Another once buffers have been replaced. */
  group: GPUBindGroup;
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

/** The plans of a program that are bound, and a way to bind them to buffers that take the place of others. */
export interface Bound {
  readonly plans: ReadonlyMap<string, BoundPlan>;
  /** Bind some more plans, whose kernels have been compiled. */
  add(
    plans: ReadonlyMap<string, Plan>,
    pipelines: ReadonlyMap<Kernel, GPUComputePipeline>,
    load: Load,
  ): void;
  /**
   * Bind what was bound to these buffers to those that have their names now.
   *
   * @param load values of the load symbols, which say how much of a buffer a kernel sees.
   */
  rebind(names: ReadonlySet<string>, load: Load): void;
}

/** Values of the load symbols. */
export type Load = ReadonlyMap<string, number>;

/** A program of which nothing is bound yet; equal bindings of what will be share a bind group. */
export function unbound(gpu: Gpu, buffers: Buffers, counters: Counters): Bound {
  const groups = new Map<string, Shared>();
  const bind = (kernel: Kernel, pieces: readonly Piece[]): GPUBindGroup => {
    const access = accessOf(kernel);
    const key = JSON.stringify([access, pieces]);
    const known = groups.get(key);
    if (known) return known.group;
    const entries = pieces.map(({ buffer, offset, size }, binding) => ({
      binding,
      resource: { buffer: buffers.get(buffer), offset, size },
    }));
    const last = { buffer: buffers.last, offset: 0, size: LAST_UNIFORM_BYTES };
    const group = gpu.device.createBindGroup({
      layout: layoutOf(gpu, access),
      entries: [...entries, { binding: entries.length, resource: last }],
    });
    groups.set(key, { group, names: pieces.map(({ buffer }) => buffer) });
    counters.bindGroups += 1;
    return group;
  };
  const bound = new Map<string, BoundPlan>();
  return {
    plans: bound,
    add(plans, pipelines, load) {
      for (const [name, plan] of plans) {
        bound.set(name, bindPlan(plan, pipelines, load, buffers.sizes, bind));
      }
    },
    rebind(replaced, load) {
      const touched = (names: readonly string[]) => names.some((name) => replaced.has(name));
      for (const [key, { names }] of groups) if (touched(names)) groups.delete(key);
      for (const { plan, launches } of bound.values()) {
        const ranges = rangesOf(plan, load);
        for (const [i, step] of plan.steps.entries()) {
          const [launch, kernel] = [launches[i], plan.kernels.get(step.kernel)];
          if (!launch || !kernel || !touched(step.bindings.map(({ buffer }) => buffer))) continue;
          launch.group = bind(kernel, piecesOf(kernel, step, ranges, buffers.sizes));
        }
      }
    },
  };
}

/** A bind group and the buffers that it names. */
interface Shared {
  readonly group: GPUBindGroup;
  readonly names: readonly string[];
}

interface Piece {
  readonly buffer: string;
  readonly offset: number;
  readonly size: number;
}

function bindPlan(
  plan: Plan,
  pipelines: ReadonlyMap<Kernel, GPUComputePipeline>,
  load: Load,
  sizes: ReadonlyMap<string, number>,
  bind: (kernel: Kernel, pieces: readonly Piece[]) => GPUBindGroup,
): BoundPlan {
  const ranges = rangesOf(plan, load);
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
    const pieces = piecesOf(kernel, step, ranges, sizes);
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

/** Values that symbols can have once those of the load symbols are known. */
function rangesOf(plan: Plan, load: Load): Map<string, Range> {
  return new Map<string, Range>(
    plan.symbols.map(({ name, kind, min, max }) => {
      const value = kind === "load" ? load.get(name) : undefined;
      return [name, value === undefined ? [min, max] : [value, value]];
    }),
  );
}

/**
 * The pieces of buffers that a launch has bound: what its kernel sees, as far as buffers reach,
 * which are made larger some at a time.
 */
function piecesOf(
  kernel: Kernel,
  step: Step,
  ranges: ReadonlyMap<string, Range>,
  sizes: ReadonlyMap<string, number>,
): Piece[] {
  return kernel.args.map((arg, i) => {
    const { buffer, offset } = step.bindings[i] ?? { buffer: "", offset: 0 };
    const seen = wordsOf(bounds(arg.bytes, ranges)[1]);
    return { buffer, offset, size: Math.min(seen, (sizes.get(buffer) ?? 0) - offset) };
  });
}

function gridsOf(
  plan: Plan,
  expressions: readonly (readonly [Expr, Expr, Expr])[],
  load: Load,
): (step: readonly number[]) => readonly Grid[] {
  const names = plan.symbols.map((symbol) => symbol.name);
  const fields = plan.symbols.map(({ name, kind, min, max }) => ({
    name,
    at: kind === "load" ? -1 : STEP_SYMBOLS.indexOf(name),
    min,
    max,
  }));
  const compiled = expressions.map((grid) => grid.map((extent) => compile(extent, names)));
  const remembered = new Map<string, readonly Grid[]>();
  return (step) => {
    const values = fields.map(({ name, at, min, max }) =>
      at < 0 ? (load.get(name) ?? min) : Math.min(Math.max(step[at] ?? 0, min), max),
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
