/** How many KV pages to keep: enough for every sequence at full length, if there is memory. */

import { EdgewiseError } from "../errors.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import { pagedState, pageRows, pagesFor, rowBytes } from "../format/state.ts";

/** More than any plan allows. */
const MAX_PAGES = 1 << 16;
/** The part of the memory beside the weights that pages may take. */
const SHARE = 0.5;
const MEBIBYTE = 1 << 20;

/** Bytes of the layout whose weights the program uses. */
export function weightBytes(manifest: BundleManifest, program: Program): number {
  const tensors = manifest.layouts.get(program.layout) ?? new Map();
  return [...tensors.values()].reduce((sum, tensor) => sum + tensor.bytes, 0);
}

/**
 * The number of pages for `maxBatch` sequences of `context` tokens each.
 *
 * Fewer where `SHARE` of the `available` bytes beside the weights, or the largest buffer the device
 * allows for one layer's pages, cannot hold them, but always enough for one sequence. Null: not
 * known, or without a limit.
 *
 * @throws EdgewiseError `device.memory` where not even one fits, `unsupported.state`.
 */
export function poolPages(
  manifest: BundleManifest,
  program: Program,
  context: number,
  available: number | null,
  largestBuffer: number | null = null,
): number {
  const group = pagedState(manifest);
  const one = pagesFor(context, group.pageTokens);
  const [size = 0] = program.pageBytes;
  let wanted = Math.max(one, Math.min(one * manifest.model.maxBatch, MAX_PAGES));
  if (largestBuffer !== null) {
    const rows = [...pageRows(group, program.stateDtype).values()];
    const layer = Math.max(1, ...rows.map(rowBytes));
    if (one * layer > largestBuffer) {
      throw new EdgewiseError(
        "device.memory",
        `One layer's KV pages of a sequence of ${context} tokens take ${mib(one * layer)} MiB; ` +
          `this device's buffers hold ${mib(largestBuffer)}.`,
        "Choose a smaller context.",
      );
    }
    wanted = Math.min(wanted, Math.floor(largestBuffer / layer));
  }
  if (available === null) return wanted;
  const weights = weightBytes(manifest, program);
  const left = Math.max(available - weights, 0);
  if (one * size > left) {
    throw new EdgewiseError(
      "device.memory",
      `The model takes ${mib(weights)} MiB and the KV pages of one sequence of ${context} tokens ` +
        `${mib(one * size)} MiB; ${mib(available)} MiB are available.`,
      "Choose a smaller context, a smaller model or a smaller quantization.",
    );
  }
  return Math.max(one, Math.min(wanted, Math.floor((left * SHARE) / size)));
}

function mib(bytes: number): number {
  return Math.floor(bytes / MEBIBYTE);
}
