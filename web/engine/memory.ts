/** How many KV pages to keep, enough for all sequences if there is memory, and to begin with. */

import type { Machine } from "../client/machine.ts";
import { EdgewiseError } from "../errors.ts";
import { MAX_PAGES } from "../format/abi.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import {
  type Footprint,
  footprintOf,
  pagedState,
  pageRows,
  pageSize,
  rowBytes,
} from "../format/state.ts";

/** The part of the memory beside the weights that pages may take. */
const SHARE = 0.5;
const MEBIBYTE = 1 << 20;

/** Tokens of each sequence that there are pages for where nobody knows how much room there is. */
const USUAL_CONTEXT = 4096;

/** A machine with so many gigabytes, or with an adapter of smaller buffers than these bytes, is small. */
const SMALL = { gigabytes: 4, buffer: 1 << 30 } as const;
/** What a small one begins with: pages of so many bytes, for so many tokens at least and at most. */
const FIRST = { bytes: 64 << 20, least: 1024, most: 2048 } as const;
/** What others begin with at most, beyond the pages of one sequence: a tab shares its GPU. */
const KV_BYTES = 256 << 20;

/** Bytes of the layout whose weights the program uses. */
export function weightBytes(manifest: BundleManifest, program: Program): number {
  const tensors = manifest.layouts.get(program.layout) ?? new Map();
  return [...tensors.values()].reduce((sum, tensor) => sum + tensor.bytes, 0);
}

/**
 * The number of pages for `maxBatch` sequences of `context` tokens each.
 *
 * Fewer where `SHARE` of the `available` bytes beside the weights, or the largest buffer the device
 * allows for one layer's pages, cannot hold them. Null: not known, or without a limit; where nobody
 * knows what is available there are pages for one sequence, or for `USUAL_CONTEXT` tokens of each.
 *
 * @param least tokens of a sequence that there must be pages for: all of `context` unless said.
 * @throws EdgewiseError `device.memory` where not even those fit, `unsupported.state`.
 */
export function poolPages(
  manifest: BundleManifest,
  program: Program,
  context: number,
  available: number | null,
  largestBuffer: number | null = null,
  least = context,
): number {
  const group = pagedState(manifest);
  const footprint = footprintOf(manifest);
  const one = footprint.pages(context);
  const tokens = Math.min(least, context);
  const needed = footprint.pages(tokens);
  const size = pageSize(program);
  const each = available === null ? Math.min(one, footprint.pages(USUAL_CONTEXT)) : one;
  let wanted = Math.max(one, Math.min(each * manifest.model.maxBatch, MAX_PAGES));
  if (largestBuffer !== null) {
    const rows = [...pageRows(group, program.stateDtype).values()];
    const layer = Math.max(1, ...rows.map(rowBytes));
    if (needed * layer > largestBuffer) {
      throw new EdgewiseError(
        "device.memory",
        `One layer's KV pages of a sequence of ${tokens} tokens take ${mib(needed * layer)} MiB; ` +
          `this device's buffers hold ${mib(largestBuffer)}.`,
        "Choose a smaller context.",
      );
    }
    wanted = Math.min(wanted, Math.floor(largestBuffer / layer));
  }
  if (available === null) return wanted;
  const weights = weightBytes(manifest, program);
  const left = Math.max(available - weights, 0);
  if (needed * size > left) {
    throw new EdgewiseError(
      "device.memory",
      `The model takes ${mib(weights)} MiB and the KV pages of one sequence of ${tokens} tokens ` +
        `${mib(needed * size)} MiB; ${mib(available)} MiB are available.`,
      "Choose a smaller context, a smaller model or a smaller quantization.",
    );
  }
  return Math.max(needed, Math.min(wanted, Math.floor((left * SHARE) / size)));
}

/**
 * Whether to begin with little memory: on phones and tablets, where the browser says that there is
 * little, and where the adapter allows no large buffers. How much storage there is says nothing.
 *
 * @param largestBuffer bytes that the adapter allows.
 */
export function isSmall({ handheld, gigabytes }: Machine, largestBuffer: number): boolean {
  const few = gigabytes !== null && gigabytes <= SMALL.gigabytes;
  return handheld || few || largestBuffer < SMALL.buffer;
}

/**
 * Pages that a program begins with, of `most` that it may come to have.
 *
 * @param small whether memory is short.
 */
export function firstPages(
  program: Program,
  footprint: Footprint,
  most: number,
  small: boolean,
): number {
  const size = pageSize(program) || 1;
  if (!small) {
    const usual = Math.max(footprint.pages(USUAL_CONTEXT), Math.floor(KV_BYTES / size));
    return Math.min(usual, most);
  }
  const affordable = Math.max(Math.floor(FIRST.bytes / size), footprint.pages(FIRST.least));
  return Math.min(affordable, footprint.pages(FIRST.most), most);
}

/**
 * Pages that a program may come to have, of `pool`: those of one sequence of `context` tokens, and
 * for others as many as take `KV_BYTES`.
 */
export function mostPages(
  program: Program,
  footprint: Footprint,
  context: number,
  pool: number,
): number {
  const size = pageSize(program) || 1;
  return Math.min(pool, Math.max(footprint.pages(context), Math.floor(KV_BYTES / size)));
}

function mib(bytes: number): number {
  return Math.floor(bytes / MEBIBYTE);
}
