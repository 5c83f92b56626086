/** What a program's calls refuse, whatever launches its kernels. */

import { EdgewiseError, shorten } from "../errors.ts";
import { evaluate } from "../format/expr.ts";
import type { Program } from "../format/manifest.ts";
import { DTYPES, type Plan, type PlanBuffer, type Role } from "../format/plan.ts";
import type { Elements } from "./base.ts";
import { elements } from "./transfer.ts";

/** A buffer with the values of load symbols filled in. */
export interface Sized {
  readonly name: string;
  readonly role: Role;
  readonly dtype: string;
  /** Bytes of an element. */
  readonly item: number;
  /** Rows, and bytes of each. */
  readonly rows: number;
  readonly row: number;
  /** Bytes that the shape takes: what is read and written. Memory may be larger. */
  readonly bytes: number;
  /** The kind of array the host has for it. */
  readonly array: string;
}

/** @param load values of the load symbols. */
export function sized(buffer: PlanBuffer, load: ReadonlyMap<string, number>): Sized {
  const { name, role, dtype } = buffer;
  const item = DTYPES.get(dtype) ?? 1;
  const [rows = 1, ...rest] = buffer.shape.map((dim) => evaluate(dim, load));
  const row = rest.reduce((a, b) => a * b, item);
  const array = elements(dtype, new ArrayBuffer(0)).constructor.name;
  return { name, role, dtype, item, rows, row, bytes: rows * row, array };
}

/**
 * A plan by name, if it may run `k` times a call.
 *
 * @throws EdgewiseError `device.plan`.
 */
export function findPlan<T extends { readonly plan: Plan }>(
  program: Program,
  plans: ReadonlyMap<string, T>,
  name: string,
  k: number,
): T {
  const found = knownPlan(program, plans, name);
  const most = found.plan.maxBurst;
  if (!Number.isInteger(k) || k < 1 || k > most) {
    const message = `Plan ${shorten(name)} runs 1..${most} times a call, not ${k}.`;
    throw new EdgewiseError("device.plan", message);
  }
  return found;
}

/**
 * A plan by name.
 *
 * @throws EdgewiseError `device.plan`.
 */
export function knownPlan<T>(program: Program, plans: ReadonlyMap<string, T>, name: string): T {
  const found = plans.get(name);
  if (found !== undefined) return found;
  const known = [...plans.keys()].join(", ");
  const message = `Program ${program.id} has no plan ${shorten(name)}; it has ${known}.`;
  throw new EdgewiseError("device.plan", message);
}

/**
 * A buffer by name that the host may look at.
 *
 * @throws EdgewiseError `device.buffer`.
 */
export function findBuffer(buffers: ReadonlyMap<string, Sized>, name: string): Sized {
  const found = buffers.get(name);
  if (found && found.role !== "scratch") return found;
  const what = found ? "scratch" : "no buffer of this program";
  throw bufferError(`${shorten(name)} is ${what}.`);
}

/**
 * Refuse what cannot be written; where it begins, in bytes.
 *
 * @throws EdgewiseError `device.buffer`.
 */
export function checkWrite(buffer: Sized, data: Elements, offsetElems: number): number {
  const { role, dtype, item, bytes, array } = buffer;
  const name = shorten(buffer.name);
  if (role === "param") throw bufferError(`The parameter ${name} is read-only.`);
  if (data.constructor.name !== array) {
    throw bufferError(`${name} is ${dtype}, not ${data.constructor.name}.`);
  }
  const start = offsetElems * item;
  const end = start + data.byteLength;
  if (!Number.isInteger(offsetElems) || offsetElems < 0 || end > bytes) {
    throw bufferError(`Bytes ${start}..${end} are not in ${name}, which has ${bytes}.`);
  }
  if (start % 4 || data.byteLength % 4) {
    throw bufferError(
      `Bytes ${start}..${end} of ${name}: a GPU's memory is written 4 bytes at a time.`,
    );
  }
  return start;
}

/**
 * The rows to read, in bytes: as many as there are from the first one on, `rows` at most.
 *
 * @throws EdgewiseError `device.buffer`.
 */
export function checkRows(
  buffer: Sized,
  firstRow: number,
  rows: number,
): { readonly offset: number; readonly size: number } {
  for (const value of [firstRow, rows]) {
    if (!Number.isInteger(value) || value < 0) {
      throw bufferError(`${rows} rows of ${shorten(buffer.name)} from ${firstRow} are none.`);
    }
  }
  const count = Math.max(0, Math.min(rows, buffer.rows - firstRow));
  return { offset: firstRow * buffer.row, size: count * buffer.row };
}

/**
 * Refuse what cannot be uploaded: all but whole words of a parameter, or its end.
 *
 * @param size the parameter's bytes.
 * @throws EdgewiseError `device.buffer`.
 */
export function checkUpload(
  tensor: string,
  role: Role | undefined,
  size: number,
  offset: number,
  data: Uint8Array,
): void {
  const end = offset + data.length;
  const inside = Number.isInteger(offset) && offset >= 0 && end <= size;
  const whole = offset % 4 === 0 && (data.length % 4 === 0 || end === size);
  if (role === "param" && inside && whole) return;
  throw bufferError(`Bytes ${offset}..${end} cannot be uploaded to ${shorten(tensor)}.`);
}

/** A refused use of a buffer. */
function bufferError(message: string): EdgewiseError {
  return new EdgewiseError("device.buffer", message);
}
