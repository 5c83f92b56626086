/**
 * The error of a sequence whose logits are not finite: where that began, and the way out.
 *
 * Kernels write NaN where a key or a value is beyond float16, and what is computed from it is not
 * finite either. So the sequence's pages tell, once it has failed.
 */

import type { LoadedProgram } from "../device/base.ts";
import { EdgewiseError } from "../errors.ts";
import type { Program, StateGroup } from "../format/manifest.ts";
import { pagedState } from "../format/state.ts";

/** What is not finite in the first layer that has such numbers. Of both, what it was given was not. */
interface Fault {
  readonly layer: number;
  readonly part: "keys" | "values" | "both";
}

/** How many keys and values of a layer's page are not finite; of int8 pages, how many scales. */
interface Counts {
  readonly layer: number;
  readonly keys: number;
  readonly values: number;
}

const HALF = 0x7c00;
const SINGLE = 0x7f800000;

/**
 * The error of a sequence that has no token after its first `tokens`.
 *
 * @param pages that these are in, in order. Nobody may write to them meanwhile.
 * @throws what reading from the program throws.
 */
export async function notFinite(
  program: LoadedProgram,
  pages: readonly number[],
  tokens: number,
): Promise<EdgewiseError> {
  const fault = await findFault(program, pages);
  const [what, remedy] = explained(program.program, fault);
  return new EdgewiseError(
    "engine.not_finite",
    `The model's logits after token ${tokens} are not finite, so that no other can follow: ${what}.`,
    remedy,
  );
}

/**
 * What follows a token that is not finite is not either, in the layers behind: so a page has faults
 * if an earlier one has, but for faults of the last layer.
 */
async function findFault(program: LoadedProgram, pages: readonly number[]): Promise<Fault | null> {
  const faultOf = async (place: number) =>
    first(program, await counted(program, pages[place] ?? 0));
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

async function counted(program: LoadedProgram, page: number): Promise<Counts[]> {
  const group = pagedState(program.manifest);
  const { stateDtype } = program.program;
  const buffers = stateDtype === "int8" ? group.scales : group.buffers;
  const read = await Promise.all(buffers.map((name) => program.read(name, page, 1)));
  return read.map((data, nth) => {
    const { buffer, byteOffset, byteLength } = data;
    const layer = group.layers[nth] ?? nth;
    if (stateDtype === "float32") {
      return { layer, ...inHalves(new Uint32Array(buffer, byteOffset, byteLength / 4), SINGLE) };
    }
    const words = new Uint16Array(buffer, byteOffset, byteLength / 2);
    return { layer, ...(stateDtype === "int8" ? inTurn(words) : inHalves(words, HALF)) };
  });
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

function first(program: LoadedProgram, layers: readonly Counts[]): Fault | null {
  const found = layers.find(({ keys, values }) => keys > 0 || values > 0);
  if (!found) return null;
  const { layer, keys, values } = found;
  const row = rowOf(pagedState(program.manifest), program.program);
  if (keys === values && keys % row === 0) return { layer, part: "both" };
  return { layer, part: keys > 0 ? "keys" : "values" };
}

/** Numbers of a token's key in a layer, or of its scales. */
function rowOf({ kvHeads, headDim }: StateGroup, { stateDtype }: Program): number {
  return stateDtype === "int8" ? kvHeads : kvHeads * headDim;
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
