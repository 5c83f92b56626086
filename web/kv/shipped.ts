/**
 * KV pages that a bundle ships (`format/packs.ts`), fetched as its other files are and kept with them. A page is used only
 * if its bytes, its header and the tokens in it are what they must be.
 */

import { systemTimer, type Timer } from "../device/nudge.ts";
import { hex, sha256 } from "../digest.ts";
import { EdgewiseError } from "../errors.ts";
import type { BundleManifest, Program } from "../format/manifest.ts";
import {
  computedBy,
  filesOf,
  indexPath,
  MAX_BYTES,
  type PackIndex,
  pagePath,
  parseIndex,
  placeOf,
} from "../format/packs.ts";
import type { Footprint } from "../format/state.ts";
import { patience, type Speeds } from "./pack-choice.ts";
import { decodePage, HEADER_BYTES } from "./page-file.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Milliseconds for which a host that failed is not asked again. */
const RESTS_MS = 60_000;
const ID_BYTES = 4;

/** What is read of a bundle. */
export interface PackFiles {
  readonly manifest: Pick<BundleManifest, "files">;
  file(path: string, signal?: AbortSignal): Promise<Bytes | null>;
  /** Whether the browser keeps it. */
  kept(path: string): Promise<boolean>;
}

/** A page that a prompt needs. */
export interface WantedPage {
  readonly key: Bytes;
  readonly tokens: readonly number[];
}

export interface ShippedOptions {
  /** Bytes of a page's state, without what a file says of it. */
  readonly pageBytes: number;
  readonly pageTokens: number;
  /** How fast things go; given what prefill was measured at, null for not yet. */
  readonly speeds: (prefill: number | null) => Speeds;
  /** Whether to wait for pages however long they take. */
  readonly always: boolean;
  /** Milliseconds. */
  readonly clock?: () => number;
  readonly timer?: Timer;
  /** Aborted when there is no use for pages any more. */
  readonly signal: AbortSignal;
}

/**
 * What a bundle ships for a program; null for nothing that fits it.
 *
 * @throws EdgewiseError `bundle.*` for an index that is damaged or malformed, `store.*` for one that cannot be fetched,
 *   `load.aborted`.
 */
export async function readPackIndex(
  files: PackFiles,
  program: Pick<Program, "target" | "arithmetic">,
  { windows, bounded, pageTokens }: Footprint,
  pageBytes: number,
): Promise<PackIndex | null> {
  const place = placeOf(program);
  const path = indexPath(place);
  const entry = files.manifest.files.get(path);
  if (!entry) return null;
  if (entry.bytes > MAX_BYTES) {
    const message = `${path} has ${entry.bytes} bytes; ${MAX_BYTES} are read at most.`;
    throw new EdgewiseError("bundle.size", message);
  }
  const data = await files.file(path);
  if (!data) return null;
  const index = await parseIndex(data, place, files.manifest);
  const fits = JSON.stringify(index.windows) === JSON.stringify(bounded ? windows : undefined);
  return fits && index.fileBytes === fileBytes(pageTokens, pageBytes) ? index : null;
}

/** Bytes of a page's file: what it says of itself, how many of its tokens are exact, their ids, and their state. */
function fileBytes(pageTokens: number, pageBytes: number): number {
  return HEADER_BYTES + ID_BYTES * (1 + pageTokens) + pageBytes;
}

export class ShippedPages {
  /** Files that were not what the bundle or their names say: their pages are not there any more. */
  damaged = 0;
  readonly computedBy: string;
  /** Of all there are. */
  readonly digest: string;
  private readonly files: PackFiles;
  private readonly place: string;
  private readonly options: ShippedOptions;
  private readonly clock: () => number;
  private readonly producer: Bytes;
  private readonly fileBytes: number;
  private readonly keys: Set<string>;
  private restsUntil = Number.NEGATIVE_INFINITY;

  private constructor(
    files: PackFiles,
    place: string,
    index: PackIndex,
    names: {
      readonly producer: Bytes;
      readonly digest: string;
      readonly keys: ReadonlySet<string>;
    },
    options: ShippedOptions,
  ) {
    this.files = files;
    this.place = place;
    this.options = options;
    this.clock = options.clock ?? (() => performance.now());
    this.computedBy = computedBy(index);
    this.producer = names.producer;
    this.digest = names.digest;
    this.fileBytes = index.fileBytes;
    this.keys = new Set(names.keys);
  }

  /** @param index what `readPackIndex` gave for the program whose place that is. */
  static async open(
    files: PackFiles,
    program: Pick<Program, "target" | "arithmetic">,
    index: PackIndex,
    options: ShippedOptions,
  ): Promise<ShippedPages> {
    const place = placeOf(program);
    const encode = (text: string) => new TextEncoder().encode(text);
    const keys = await filesOf(index);
    const hashes = [...keys].map(
      (key) => files.manifest.files.get(pagePath(place, key))?.sha256 ?? "",
    );
    const names = {
      keys,
      producer: await sha256(encode(computedBy(index))),
      digest: hex(await sha256(encode(hashes.sort().join("\n")))),
    };
    return new ShippedPages(files, place, index, names, options);
  }

  /** Whether a page seems to be there. */
  has(key: Bytes): boolean {
    return this.keys.has(hex(key));
  }

  /**
   * The state of pages that a prompt needs next, as many of the first as are there and come sooner than they are computed.
   * Never rejects.
   *
   * @param prefill tokens of prompts that were computed in a second; null where none were yet.
   */
  async bring(wanted: readonly WantedPage[], prefill: number | null): Promise<readonly Bytes[]> {
    const missing = wanted.findIndex(({ key }) => !this.has(key));
    const pages = missing < 0 ? wanted : wanted.slice(0, missing);
    if (pages.length === 0 || this.options.signal.aborted) return [];
    const there = await this.fromStore(pages);
    const away = this.clock() < this.restsUntil ? there.indexOf(false) : -1;
    const reachable = away < 0 ? pages : pages.slice(0, away);
    const ms = this.patienceFor(reachable, there, prefill);
    if (reachable.length === 0 || ms === null) return [];
    const late = new AbortController();
    const { timer = systemTimer } = this.options;
    const inTime = Number.isFinite(ms) ? timer(ms, () => late.abort()) : () => {};
    const signal = AbortSignal.any([late.signal, this.options.signal]);
    const came = await Promise.all(reachable.map((page) => this.read(page, signal)));
    inTime();
    const lacking = came.indexOf(null);
    return (lacking < 0 ? came : came.slice(0, lacking)) as Bytes[];
  }

  /** Which of some pages the browser keeps. */
  private fromStore(pages: readonly WantedPage[]): Promise<readonly boolean[]> {
    return Promise.all(
      pages.map(({ key }) => this.files.kept(this.pathOf(key)).catch(() => false)),
    );
  }

  private patienceFor(
    pages: readonly WantedPage[],
    there: readonly boolean[],
    prefill: number | null,
  ): number | null {
    const { always, pageTokens, speeds } = this.options;
    if (always) return Number.POSITIVE_INFINITY;
    const kept = pages.filter((_, at) => there[at]).length;
    const wanted = {
      // Those of all state groups for the same tokens spare them together.
      tokens: new Set(pages.map(({ tokens }) => tokens)).size * pageTokens,
      store: kept * this.fileBytes,
      network: (pages.length - kept) * this.fileBytes,
    };
    return patience(wanted, speeds(prefill));
  }

  /** A page's state; null where it cannot be had, or is not whole. */
  private async read({ key, tokens }: WantedPage, signal: AbortSignal): Promise<Bytes | null> {
    try {
      const file = await this.files.file(this.pathOf(key), signal);
      const name = { producer: this.producer, key };
      const bytes = this.fileBytes - HEADER_BYTES;
      const page = file && (await decodePage(name, bytes, file));
      const state = page && stateOf(page, tokens);
      if (state) return state;
    } catch (error) {
      const code = error instanceof EdgewiseError ? error.code : "";
      if (!code.startsWith("bundle.")) {
        if (!signal.aborted) this.restsUntil = this.clock() + RESTS_MS;
        return null;
      }
    }
    this.damaged += 1;
    this.keys.delete(hex(key));
    return null;
  }

  private pathOf(key: Bytes): string {
    return pagePath(this.place, hex(key));
  }
}

/** The state of a full page of these tokens; null where it is of others. */
function stateOf(page: Bytes, tokens: readonly number[]): Bytes | null {
  const view = new DataView(page.buffer, page.byteOffset);
  if (view.getUint32(0, true) > tokens.length) return null;
  const same = tokens.every((token, at) => view.getUint32(ID_BYTES * (1 + at), true) === token);
  return same ? page.subarray(ID_BYTES * (1 + tokens.length)) : null;
}
