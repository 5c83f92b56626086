/**
 * The error of a sequence whose logits are not finite: where that began, and the way out.
 *
 * Kernels write NaN where a key or a value is beyond float16, and what is computed from it is not
 * finite either. So the sequence's pages tell, once it has failed.
 */

import type { Elements, LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import type { Program, StateGroup } from "../format/manifest.ts";
import { GONE } from "./prefix.ts";

/**
 * The first of a sequence's pages, and of its layers, that have numbers that are not finite, and
 * which: of both, what the layer was given was not finite.
 */
export interface Fault {
  readonly page: number;
  readonly layer: number;
  readonly part: "keys" | "values" | "both";
}

const HALF = 0x7c00;
const SINGLE = 0x7f800000;

/**
 * The error of a sequence that has no token after its first `tokens`.
 *
 * @param rows the pages that these are in, in order, of each state group. Nobody may write to them meanwhile.
 * @throws what reading from the program throws.
 */
export async function notFinite(
  program: LoadedProgram,
  rows: readonly (readonly number[])[],
  tokens: number,
): Promise<EdgewiseError> {
  const { stateDtype } = program.program;
  let fault: Fault | null = null;
  for (const [nth, group] of program.manifest.stateGroups.entries()) {
    const pages = (rows[nth] ?? []).filter((page) => page !== GONE);
    const found = await findFault(group, stateDtype, pages, (name, page) =>
      program.read(name, page, 1),
    );
    if (found && (!fault || found.layer < fault.layer)) fault = found;
  }
  const [what, remedy] = explained(program.program, fault);
  return new EdgewiseError(
    "engine.not_finite",
    `The model's logits after token ${tokens} are not finite, so that no other can follow: ${what}.`,
    remedy,
  );
}

type Dtype = Program["stateDtype"];
type Read = (buffer: string, page: number) => Promise<Elements>;

/**
 * Where numbers that are not finite came into the pages of a sequence; null where there are none.
 *
 * What follows a token that is not finite is not either, in the layers behind: so a page has faults
 * if an earlier one has, but for faults of the last layer.
 *
 * @param dtype what pages hold.
 * @param read a page's part of a buffer of the group.
 */
export async function findFault(
  group: StateGroup,
  dtype: Dtype,
  pages: readonly number[],
  read: Read,
): Promise<Fault | null> {
  const faultOf = async (place: number): Promise<Fault | null> => {
    const found = await firstLayer(group, dtype, (name) => read(name, pages[place] ?? 0));
    return found && { page: place, ...found };
  };
  let low = 0;
  let high = pages.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await faultOf(middle)) high = middle;
    else low = middle + 1;
  }
  if (low < pages.length) return faultOf(low);
  for (const place of pages.keys()) {
    const fault = await faultOf(place);
    if (fault) return fault;
  }
  return null;
}

async function firstLayer(
  group: StateGroup,
  dtype: Dtype,
  read: (buffer: string) => Promise<Elements>,
): Promise<Omit<Fault, "page"> | null> {
  // In an int8 page codes are finite by themselves.
  const pieces = await Promise.all((dtype === "int8" ? group.scales : group.buffers).map(read));
  const row = dtype === "int8" ? group.kvHeads : group.kvHeads * group.headDim;
  for (const [nth, data] of pieces.entries()) {
    const { keys, values } = counted(dtype, data);
    if (keys === 0 && values === 0) continue;
    const layer = group.layers[nth] ?? nth;
    if (keys === values && keys % row === 0) return { layer, part: "both" };
    return { layer, part: keys > 0 ? "keys" : "values" };
  }
  return null;
}

/** How many keys and values of a layer's page are not finite; of int8 pages, how many scales. */
function counted(dtype: Dtype, { buffer, byteOffset, byteLength }: Elements) {
  if (dtype === "float32") {
    return inHalves(new Uint32Array(buffer, byteOffset, byteLength / 4), SINGLE);
  }
  const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
  return dtype === "int8" ? inTurn(words) : inHalves(words, HALF);
}

type Words = Uint16Array | Uint32Array;

/** The keys of a page come before its values. */
function inHalves(words: Words, exponent: number) {
  return counts(words, exponent, (at) => at < words.length / 2);
}

/** A scale's word has the key's in its low half, the value's in the high one. */
function inTurn(words: Words) {
  return counts(words, HALF, (at) => at % 2 === 0);
}

function counts(words: Words, exponent: number, isKey: (at: number) => boolean) {
  let keys = 0;
  let values = 0;
  for (let at = 0; at < words.length; at++) {
    if (((words[at] ?? 0) & exponent) !== exponent) continue;
    if (isKey(at)) keys += 1;
    else values += 1;
  }
  return { keys, values };
}

function explained(program: Program, fault: Fault | null): [what: string, remedy: string] {
  const wider =
    "Compile the model with --quant f32 --target cpu, which computes in float32, and run it in " +
    "Python.";
  if (!fault)
    return ["what comes after the keys and values of the last layer has overflowed", wider];
  const { layer, part } = fault;
  if (part === "both" || program.stateDtype === "float32") {
    return [`what layer ${layer} is given, or makes of it, has overflowed`, wider];
  }
  const { stateDtype, id } = program;
  return [
    `the ${part} of layer ${layer} are beyond what KV pages of ${stateDtype} hold, in the program ` +
      id,
    "Compile the model with --kv f32, for pages of float32, which hold them.",
  ];
}
