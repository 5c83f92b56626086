/** Whether a program's plans agree with each other and with the manifest that names them. */

import { EdgewiseError, shorten } from "../errors.ts";
import { sharedBuffers } from "./abi.ts";
import type { Expr } from "./expr.ts";
import type { BundleManifest, Entry, Program, StateGroup, TensorEntry } from "./manifest.ts";
import type { Plan, PlanBuffer } from "./plan.ts";
import { checkShared } from "./plan-checks.ts";
import { groupsOf, PAGES, pageRows, pagesFor, rowBytes } from "./state.ts";

/** Shared buffers that a program may lack. */
const OPTIONAL: ReadonlySet<string> = new Set(["logprobs", "logprob_ids", "hidden"]);

type BufferTable = ReadonlyMap<string, PlanBuffer>;

/**
 * Check all plans of a program, by the names that the manifest gives them.
 *
 * @throws EdgewiseError `bundle.plan`, `bundle.tensor`, `bundle.shader`, `bundle.entry`,
 *   `bundle.state`, `bundle.buffer` or `plan.shared`.
 */
export function checkProgram(
  manifest: BundleManifest,
  program: Program,
  plans: ReadonlyMap<string, Plan>,
): void {
  for (const [name, plan] of plans) checkProgramPlan(manifest, program, name, plan);
  checkShared(plans.values());
  const all = [...plans.values()].flatMap((plan) => plan.buffers);
  const buffers = new Map(all.map((buffer) => [buffer.name, buffer]));
  checkStates(manifest, program, buffers);
  checkBuffers(manifest, program, buffers);
}

/**
 * Check one plan: that it is the one named, that its parameters are the layout's tensors, that each
 * kernel has a shader, and that it serves what the program's entries say.
 *
 * @throws EdgewiseError `bundle.plan`, `bundle.tensor`, `bundle.shader` or `bundle.entry`.
 */
export function checkProgramPlan(
  manifest: BundleManifest,
  program: Program,
  name: string,
  plan: Plan,
): void {
  const where = `Program ${shorten(program.id)}, plan ${shorten(name)}`;
  if (plan.name !== name || plan.target !== program.target) {
    const found = `plan ${shorten(plan.name)} for ${plan.target}`;
    throw fail("plan", `${where} for ${program.target}: its file holds ${found}.`);
  }
  const tensors = manifest.layouts.get(program.layout);
  for (const buffer of plan.buffers) {
    if (buffer.role !== "param") continue;
    const tensor = tensors?.get(buffer.name);
    if (tensor === undefined) {
      const layout = `the layout ${shorten(program.layout)}`;
      throw fail("tensor", `${where}: ${layout} has no tensor ${shorten(buffer.name)}.`);
    }
    checkTensor(where, buffer, tensor);
  }
  const bare = [...plan.kernels.keys()].find((kernel) => !program.shaders.has(kernel));
  if (program.library === null && bare !== undefined) {
    throw fail("shader", `${where}: there is no shader for the kernel ${shorten(bare)}.`);
  }
  for (const [operation, entries] of program.entries) {
    for (const entry of entries) {
      if (entry.plan === name) checkEntry(`${where}, entry ${shorten(operation)}`, entry, plan);
    }
  }
}

function checkTensor(where: string, buffer: PlanBuffer, tensor: TensorEntry): void {
  const alike =
    buffer.dtype === tensor.dtype &&
    buffer.bytes === tensor.bytes &&
    same(buffer.shape, tensor.shape);
  if (alike) return;
  const declared = `${buffer.dtype} ${shorten(buffer.shape)}`;
  const packed = `${tensor.dtype} ${shorten(tensor.shape)}`;
  const message = `the parameter ${shorten(buffer.name)} is ${declared}, its tensor ${packed}`;
  throw fail("tensor", `${where}: ${message}.`);
}

function checkEntry(where: string, entry: Entry, plan: Plan): void {
  for (const [name, [low, high]] of entry.when) {
    const symbol = plan.symbols.find((candidate) => candidate.name === name);
    if (symbol === undefined) {
      throw fail("entry", `${where}: the plan has no symbol ${shorten(name)}.`);
    }
    if (low < symbol.min || high > symbol.max) {
      const range = `${symbol.min}..${symbol.max}`;
      throw fail("entry", `${where}: ${low}..${high} of ${shorten(name)} exceeds ${range}.`);
    }
  }
}

/** Check that the state groups list all pages, and that the plans keep them as they say. */
function checkStates(manifest: BundleManifest, program: Program, buffers: BufferTable): void {
  const where = `Program ${shorten(program.id)}`;
  const listed = new Set<string>();
  manifest.stateGroups.forEach((group, nth) => {
    const found = groupBytes(group, program, buffers);
    const declared = program.pageBytes[nth];
    if (found !== declared) {
      const what = `a page of the group of ${shorten(group.buffers)} takes ${found} bytes`;
      throw fail("state", `${where}: ${what}, not ${declared}.`);
    }
    for (const name of [...group.buffers, ...group.scales]) listed.add(name);
  });
  for (const { name, role, shape } of buffers.values()) {
    if (role !== "state" || shape[0] !== PAGES || listed.has(name)) continue;
    throw fail("state", `${where}: no state group lists the pages in ${shorten(name)}.`);
  }
}

/** Bytes that a page of a group takes in the program's plans. */
function groupBytes(group: StateGroup, program: Program, buffers: BufferTable): number {
  const where = `Program ${shorten(program.id)}`;
  if (program.stateDtype === "int8" && group.scales.length !== group.buffers.length) {
    const which = `the group of ${shorten(group.buffers)}`;
    throw fail("state", `${where}: its state is int8, and ${which} has no scales.`);
  }
  let total = 0;
  for (const [name, row] of pageRows(group, program.stateDtype)) {
    const { dtype } = row;
    const buffer = buffers.get(name);
    if (buffer?.role !== "state" || buffer.dtype !== dtype) {
      const found = buffer ? `${buffer.role} ${buffer.dtype}` : "missing";
      throw fail("state", `${where}: ${shorten(name)} is ${found}, not ${dtype} state.`);
    }
    const shape = buffer.shape.slice(1).filter((extent) => typeof extent === "number");
    const wanted = [PAGES, ...row.shape];
    const whole = shape.length + 1 === buffer.shape.length;
    if (!whole || (group.kind === "paged" && !same(buffer.shape, wanted))) {
      const found = `${shorten(name)} is ${shorten(buffer.shape)}`;
      throw fail("state", `${where}: ${found}, its group says ${shorten(wanted)}.`);
    }
    total += rowBytes({ dtype, shape });
  }
  return total;
}

/**
 * Check that what the host writes and reads is as `abi.ts` has it. A program that samples has all of
 * it but log-probabilities, so that nothing the manifest says of the model stays unchecked.
 */
function checkBuffers(manifest: BundleManifest, program: Program, buffers: BufferTable): void {
  const { context, hidden, maxBatch, prefillChunk, vocab } = manifest.model;
  const pages = manifest.stateGroups.map((group) => pagesFor(context, group.pageTokens));
  const groups = groupsOf(manifest);
  const bounds = { rows: prefillChunk, batch: maxBatch, pages: Math.max(0, ...pages), groups };
  for (const [name, [role, dtype, shape]] of sharedBuffers({ ...bounds, hidden, vocab })) {
    const buffer = buffers.get(name);
    if (!buffer && (!program.entries.has("sample") || OPTIONAL.has(name))) continue;
    if (buffer?.role === role && buffer.dtype === dtype && same(buffer.shape, shape)) continue;
    const found = buffer ? `${buffer.role} ${buffer.dtype} ${shorten(buffer.shape)}` : "missing";
    const wanted = `${role} ${dtype} ${shorten(shape)}`;
    const where = `Program ${shorten(program.id)}`;
    throw fail("buffer", `${where}: ${shorten(name)} is ${found}, not ${wanted}.`);
  }
}

function same(one: readonly Expr[], other: readonly Expr[]): boolean {
  return one.length === other.length && one.every((extent, i) => extent === other[i]);
}

function fail(what: string, message: string): EdgewiseError {
  return new EdgewiseError(`bundle.${what}`, message, "Copy or compile the bundle again.");
}
