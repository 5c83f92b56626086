/** Whether a program's plans agree with each other and with the manifest that names them. */

import { EdgewiseError, shorten } from "../errors.ts";
import type { BundleManifest, Entry, Program, TensorEntry } from "./manifest.ts";
import type { Plan, PlanBuffer } from "./plan.ts";
import { checkShared } from "./plan-checks.ts";

/**
 * Check all plans of a program, by the names that the manifest gives them.
 *
 * @throws EdgewiseError `bundle.plan`, `bundle.tensor`, `bundle.shader`, `bundle.entry`,
 *   `bundle.state` or `plan.shared`.
 */
export function checkProgram(
  manifest: BundleManifest,
  program: Program,
  plans: ReadonlyMap<string, Plan>,
): void {
  for (const [name, plan] of plans) checkProgramPlan(manifest, program, name, plan);
  checkShared(plans.values());
  checkStates(manifest, program, plans);
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
    buffer.shape.length === tensor.shape.length &&
    buffer.shape.every((dim, i) => dim === tensor.shape[i]);
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

/** Check that the buffers of the state groups are states of the program's dtype. */
function checkStates(
  manifest: BundleManifest,
  program: Program,
  plans: ReadonlyMap<string, Plan>,
): void {
  const buffers = new Map<string, PlanBuffer>();
  for (const plan of plans.values()) {
    for (const buffer of plan.buffers) buffers.set(buffer.name, buffer);
  }
  const where = `Program ${shorten(program.id)}`;
  const coded = program.stateDtype === "int8";
  for (const group of manifest.stateGroups) {
    if (coded && group.scales.length !== group.buffers.length) {
      const which = `the group of ${shorten(group.buffers)}`;
      throw fail("state", `${where}: its state is int8, and ${which} has no scales.`);
    }
    const wanted = group.buffers.map((name) => [name, program.stateDtype as string] as const);
    if (coded) wanted.push(...group.scales.map((name) => [name, "uint32"] as const));
    for (const [name, dtype] of wanted) {
      const buffer = buffers.get(name);
      if (buffer?.role === "state" && buffer.dtype === dtype) continue;
      const found = buffer ? `${buffer.role} ${buffer.dtype}` : "missing";
      throw fail("state", `${where}: ${shorten(name)} is ${found}, not ${dtype} state.`);
    }
  }
}

function fail(what: string, message: string): EdgewiseError {
  return new EdgewiseError(`bundle.${what}`, message, "Copy or compile the bundle again.");
}
