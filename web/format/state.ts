/**
 * What a state group says about memory, and which groups this version can run.
 *
 * Nobody else decides how large a page is: whoever needs its tokens asks `pagedState` for the
 * group, which refuses what the kernels are not compiled for.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { PAGE_TOKENS } from "./abi.ts";
import type { BundleManifest, StateGroup } from "./manifest.ts";
import { DTYPES } from "./plan.ts";

/** The load symbol that is the number of pages: the first extent of every buffer of pages. */
export const PAGES = "pages";

/** A page's part of one buffer. */
export interface PageRow {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** How many pages of so many tokens hold this many. */
export function pagesFor(tokens: number, pageTokens: number): number {
  return Math.ceil(tokens / pageTokens);
}

/**
 * The group that lists all state of a bundle's sequences.
 *
 * @throws EdgewiseError `unsupported.state` for groups that this version cannot run: none, or
 *   several, recurrent ones, sliding windows, pages of another size.
 */
export function pagedState(manifest: BundleManifest): StateGroup {
  const [group, ...others] = manifest.stateGroups;
  if (!group || others.length > 0) {
    throw unsupported(manifest, `${manifest.stateGroups.length} state groups`, "one");
  }
  for (const [name, found, wanted] of [
    ["kind", group.kind, "paged"],
    ["window", group.window, null],
    ["page_tokens", group.pageTokens, PAGE_TOKENS],
  ] as const) {
    if (found === wanted) continue;
    const what = `a state group whose '${name}' is ${shorten(found)}`;
    throw unsupported(manifest, what, shorten(wanted));
  }
  return group;
}

/**
 * What a page of a paged group is made of, by buffer, in the order of a page's bytes.
 *
 * @param dtype what the program keeps in the group's buffers; int8 has scales beside them.
 */
export function pageRows(group: StateGroup, dtype: string): ReadonlyMap<string, PageRow> {
  const { kvHeads, headDim, pageTokens } = group;
  const numbers = { dtype, shape: [2, kvHeads, pageTokens * headDim] };
  const scales = { dtype: "uint32", shape: [kvHeads, pageTokens] };
  return new Map<string, PageRow>([
    ...group.buffers.map((name) => [name, numbers] as const),
    ...(dtype === "int8" ? group.scales : []).map((name) => [name, scales] as const),
  ]);
}

/** Bytes of a page's part of one buffer. */
export function rowBytes({ dtype, shape }: PageRow): number {
  return shape.reduce((bytes, extent) => bytes * extent, DTYPES.get(dtype) ?? 0);
}

function unsupported(manifest: BundleManifest, found: string, wanted: string): EdgewiseError {
  return new EdgewiseError(
    "unsupported.state",
    `Bundle ${shorten(manifest.name)} has ${found}; this version of edgewise runs ${wanted}.`,
    "Update edgewise, or compile the model again with this version.",
  );
}
