/**
 * What a state group says about memory, and which groups this version can run.
 *
 * Nobody else decides how large a page is: whoever needs its tokens asks `pagedState` for the
 * group, which refuses what the kernels are not compiled for.
 */

import { EdgewiseError, shorten } from "../errors.ts";
import { PAGE_TOKENS, TABLES } from "./abi.ts";
import type { BundleManifest, Program, StateGroup } from "./manifest.ts";
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
 * The group that says what a page is, of a bundle whose groups list all state of its sequences. All of them take their
 * pages from one pool: a page of any of them is a row of each buffer of this one.
 *
 * @throws EdgewiseError `unsupported.state` for groups that this version cannot run: none, or too many, recurrent ones,
 *   pages of another size, buffers of their own.
 */
export function pagedState(manifest: BundleManifest): StateGroup {
  const { stateGroups } = manifest;
  const [first] = stateGroups;
  if (!first || stateGroups.length > TABLES.length) {
    throw unsupported(manifest, `${stateGroups.length} state groups`, `1 to ${TABLES.length}`);
  }
  for (const group of stateGroups) {
    for (const [name, found, wanted] of [
      ["kind", group.kind, "paged"],
      ["page_tokens", group.pageTokens, PAGE_TOKENS],
    ] as const) {
      if (found === wanted) continue;
      const what = `a state group whose '${name}' is ${shorten(found)}`;
      throw unsupported(manifest, what, shorten(wanted));
    }
    for (const [name, mine, others] of [
      ["buffers", group.buffers, first.buffers],
      ["scales", group.scales, first.scales],
    ] as const) {
      if (mine.every((buffer, nth) => buffer === others[nth])) continue;
      const what = `a state group whose '${name}' are ${shorten(mine)}`;
      throw unsupported(manifest, what, `those of the first group, ${shorten(others)}`);
    }
  }
  return first;
}

/**
 * How many pages of the pool belong together: one of each state group, for the same tokens. Whatever is not a kernel
 * takes them as one page: page p is the pages p * n to p * n + n - 1 of the pool. So in a tab the pages behind a window
 * stay as long as all others.
 */
export function pagesTogether({ stateGroups }: BundleManifest): number {
  return Math.max(stateGroups.length, 1);
}

/** Bytes of the pages that belong together. */
export function pageSize({ pageBytes: [size = 0, ...others] }: Program): number {
  return size * (1 + others.length);
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
