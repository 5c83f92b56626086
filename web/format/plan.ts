/** The plan: a flat list of kernel launches over a static memory layout, as readonly data. */

import type { Expr } from "./expr.ts";

export const TARGETS = ["cpu", "webgpu", "vulkan", "cuda", "metal"] as const;
export const ROLES = ["param", "state", "input", "output", "scratch"] as const;
export const KINDS = ["load", "step"] as const;
export const ACCESSES = ["read", "write", "readwrite"] as const;

/** Bytes of an element. */
export const DTYPES: ReadonlyMap<string, number> = new Map([
  ["float32", 4],
  ["float16", 2],
  ["int64", 8],
  ["int32", 4],
  ["int16", 2],
  ["int8", 1],
  ["uint64", 8],
  ["uint32", 4],
  ["uint16", 2],
  ["uint8", 1],
]);

export type Role = (typeof ROLES)[number];
export type Access = (typeof ACCESSES)[number];

/** A bounded integer: load symbols are chosen once, step symbols vary from call to call. */
export interface PlanSymbol {
  readonly name: string;
  readonly kind: (typeof KINDS)[number];
  readonly min: number;
  readonly max: number;
}

/**
 * A piece of memory. `shape` and `bytes` range over load symbols; scratch is raw uint8. State is
 * zero when a program has been loaded.
 */
export interface PlanBuffer {
  readonly name: string;
  readonly role: Role;
  readonly dtype: string;
  readonly shape: readonly Expr[];
  readonly bytes: Expr;
}

export interface KernelArg {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly Expr[];
  readonly access: Access;
  /** Extent in bytes. */
  readonly bytes: Expr;
}

/** Bytes moved and operations of one launch, over any symbols and `kv`. */
export interface Cost {
  readonly bytes: Expr;
  readonly flops: Expr;
}

export interface Kernel {
  readonly symbol: string;
  readonly args: readonly KernelArg[];
  readonly cost: Cost | null;
}

/** The buffer bound to an argument, from a constant byte offset that 256 divides. */
export interface Binding {
  readonly buffer: string;
  readonly offset: number;
}

export interface Step {
  readonly kernel: string;
  readonly bindings: readonly Binding[];
  readonly grid: readonly [Expr, Expr, Expr];
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly label: string;
}

export interface Plan {
  readonly name: string;
  readonly target: (typeof TARGETS)[number];
  /** How often it may be repeated in one call; repetitions with nobody running do nothing. */
  readonly maxBurst: number;
  readonly symbols: readonly PlanSymbol[];
  readonly buffers: readonly PlanBuffer[];
  readonly kernels: ReadonlyMap<string, Kernel>;
  readonly steps: readonly Step[];
  /** The CPU's compiled host function; nothing a browser can call. */
  readonly host: string | null;
}
