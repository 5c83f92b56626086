/**
 * What a state group says about memory, and which groups this version can run.
 *
 * Nobody else decides how large a page is: whoever needs its tokens asks `pagedState` for the
 * group, which refuses what the kernels are not compiled for.
 */

import { sha256 } from "../digest.ts";
import { EdgewiseError, shorten } from "../errors.ts";
import { PAGE_TOKENS, RING, TABLES } from "./abi.ts";
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

/** How many state groups a bundle has: as many tables, and a page of each for the same tokens. */
export function groupsOf({ stateGroups }: BundleManifest): number {
  return Math.max(stateGroups.length, 1);
}

/** Bytes of a page, whichever group takes it: the first has the most layers. */
export function pageSize({ pageBytes: [size = 0] }: Program): number {
  return size;
}

/**
 * How many pages sequences take, of all groups together. A group with a window has none that lie behind it: none
 * without a token that one still to be computed sees. As Python's `format/state.py`.
 */
export class Footprint {
  /** Whether any group has a window. */
  readonly bounded: boolean;
  /** Of each group, null for one that keeps all pages. */
  readonly windows: readonly (number | null)[];
  /** Tokens of a sequence at most of which it is not known that they are computed when it is given pages. */
  readonly step: number;
  readonly pageTokens: number;

  constructor(windows: readonly (number | null)[], step: number, pageTokens: number) {
    this.windows = windows;
    this.step = step;
    this.pageTokens = pageTokens;
    this.bounded = windows.some((window) => window !== null);
  }

  /** How many pages, from the first, hold nothing that tokens see which follow so many. */
  behind(window: number | null, computed: number): number {
    return window === null ? 0 : Math.floor(Math.max(computed - window + 1, 0) / this.pageTokens);
  }

  /** The most pages of a group that a sequence holds at once: those that a stretch of so many tokens can touch. */
  most(window: number | null): number {
    if (window === null) return Number.POSITIVE_INFINITY;
    const stretch = window - 1 + this.step;
    return Math.floor((stretch + this.pageTokens - 2) / this.pageTokens) + 1;
  }

  /** The most pages that a sequence of so many tokens comes to hold. */
  pages(tokens: number): number {
    const count = pagesFor(tokens, this.pageTokens);
    return this.windows.reduce<number>((sum, one) => sum + Math.min(count, this.most(one)), 0);
  }

  /** The most tokens of a sequence, `most` at the outside, that so many pages hold. */
  tokens(pages: number, most: number): number {
    let low = 0;
    let high = pagesFor(most, this.pageTokens);
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.pages(middle * this.pageTokens) <= pages) low = middle;
      else high = middle - 1;
    }
    return Math.min(most, low * this.pageTokens);
  }
}

/**
 * What the page of a state group is called, of those for the tokens that `key` is of: of the first it is that.
 */
export async function groupKey(
  key: Uint8Array<ArrayBuffer>,
  group: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (group === 0) return key;
  const data = new Uint8Array(key.length + 4);
  data.set(key);
  new DataView(data.buffer).setUint32(key.length, group, true);
  return sha256(data);
}

/** Pieces of work of one sequence that may be under way at once where it has windows. */
const UNDER_WAY = 2;

/** How many pages sequences of a bundle take. Throws as `pagedState` does. */
export function footprintOf(manifest: BundleManifest): Footprint {
  const { pageTokens } = pagedState(manifest);
  const windows = manifest.stateGroups.map(({ window }) => window);
  const step = UNDER_WAY * Math.max(manifest.model.prefillChunk, RING);
  return new Footprint(windows, step, pageTokens);
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
