/** A host of a bundle that ships pages of one prompt, and what is read of it there. */

import type { Timer } from "../../device/nudge.ts";
import { hex } from "../../digest.ts";
import { PAGE_TOKENS } from "../../format/abi.ts";
import { indexPath, pagePath, placeOf } from "../../format/packs.ts";
import { Footprint } from "../../format/state.ts";
import { encodePage, HEADER_BYTES } from "../../kv/page-file.ts";
import { readPackIndex, ShippedPages, type WantedPage } from "../../kv/shipped.ts";
import { FileStore } from "../../store/opfs.ts";
import type { Store } from "../../store/store.ts";
import { BundleFiles } from "../../worker/bundle.ts";
import { bytes } from "../format/cases.ts";
import type { Host } from "../store/host.ts";
import { makeOrigin } from "../store/origin.ts";
import { contents, sha256 } from "../store/support.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export const PAGE_BYTES = 2400;
export const FILE_BYTES = HEADER_BYTES + 4 * (1 + PAGE_TOKENS) + PAGE_BYTES;
export const PROGRAM = { target: "webgpu", arithmetic: "f32" };
const PRODUCER = "webgpu/it/0123";
const DEVICE = "somebody's";
const PLACE = placeOf(PROGRAM);

const bytesOf = (text: string): Bytes => new TextEncoder().encode(text);
const unhex = (text: string): Bytes => new Uint8Array(Buffer.from(text, "hex"));

/** The n-th page of the prompt, and what its state is. */
export const wanted = (n: number): WantedPage => ({
  key: contents(32, 100 + n),
  tokens: Array.from({ length: PAGE_TOKENS }, (_, at) => 1000 * n + at),
});
export const state = (n: number): Bytes => contents(PAGE_BYTES, 200 + n);
export const pathOf = (n: number): string => pagePath(PLACE, hex(wanted(n).key));

export interface Changes {
  /** Says otherwise of the index. */
  readonly index?: Readonly<Record<string, unknown>>;
  /** Whose tokens the file of a page has, and who is said to have computed it. */
  readonly tokens?: (n: number) => readonly number[];
  readonly producer?: string;
}

/** Put a bundle on a host whose prompt has so many pages. */
export async function publish(host: Host, pages: number, changes: Changes = {}): Promise<void> {
  const { producer = `${PRODUCER}/${DEVICE}` } = changes;
  const files = new Map<string, Bytes>();
  const numbers = Array.from({ length: pages }, (_, n) => n);
  for (const n of numbers) {
    const tokens = changes.tokens?.(n) ?? wanted(n).tokens;
    const payload = new Uint8Array(4 * (1 + PAGE_TOKENS) + PAGE_BYTES);
    payload.set(new Uint8Array(Uint32Array.from([PAGE_TOKENS, ...tokens]).buffer));
    payload.set(state(n), 4 * (1 + PAGE_TOKENS));
    const name = { producer: unhex(sha256(bytesOf(producer))), key: wanted(n).key };
    files.set(pathOf(n), await encodePage(name, payload));
  }
  const pack = {
    name: "it",
    prompt: "0".repeat(64),
    keys: numbers.map((n) => hex(wanted(n).key)),
    prefill_tokens_per_s: 0,
  };
  const index = {
    version: 1,
    producer: PRODUCER,
    device: DEVICE,
    page_tokens: PAGE_TOKENS,
    file_bytes: FILE_BYTES,
    packs: [pack],
    ...changes.index,
  };
  files.set(indexPath(PLACE), bytesOf(JSON.stringify(index)));
  for (const [path, data] of files) host.files.set(path, data);
  const manifest = JSON.parse(new TextDecoder().decode(bytes("goldens/bundle.json")));
  delete manifest.digest;
  for (const [path, data] of files) {
    manifest.files[path] = { bytes: data.length, sha256: sha256(data) };
  }
  const rest = JSON.stringify(manifest).slice(1);
  const digest = sha256(bytesOf(rest));
  host.files.set("bundle.json", bytesOf(`{"digest":"${digest}",${rest}`));
}

/** A browser's store that has nothing yet. */
export const emptyStore = () => FileStore.open(makeOrigin().root);

export interface Opened {
  readonly files: BundleFiles;
  readonly shipped: ShippedPages | null;
  /** Lets time pass for what does not ask a host that failed. */
  readonly pass: (ms: number) => void;
  readonly limits: readonly Limit[];
  readonly end: () => void;
}

/** What a program finds there, where fetching is quicker than computing, or waited for anyhow. */
export async function open(
  host: Host,
  { store, network = null, always = false, pageBytes = PAGE_BYTES, windows = [null] }: Opening,
): Promise<Opened> {
  const ending = new AbortController();
  const kept = store ?? (await emptyStore());
  const files = await BundleFiles.open(host.url, kept, ending.signal);
  const footprint = new Footprint(windows, 0, PAGE_TOKENS);
  const index = await readPackIndex(files, PROGRAM, footprint, pageBytes);
  let now = 0;
  const given: Timer = (ms, call) => {
    limits.push({ ms, end: call });
    return () => {};
  };
  const limits: Limit[] = [];
  const options = {
    pageBytes,
    pageTokens: PAGE_TOKENS,
    speeds: (prefill: number | null) => ({ prefill: prefill ?? 1, network, store: null }),
    always,
    clock: () => now,
    timer: given,
    signal: ending.signal,
  };
  return {
    files,
    shipped: index && (await ShippedPages.open(files, PROGRAM, index, options)),
    pass: (ms) => {
      now += ms;
    },
    limits,
    end: () => ending.abort(),
  };
}

/** The time that pages are given, which is over when the test says so. */
interface Limit {
  readonly ms: number;
  readonly end: () => void;
}

interface Opening {
  readonly store?: Store;
  /** Bytes in a millisecond. */
  readonly network?: number | null;
  readonly always?: boolean;
  readonly pageBytes?: number;
  readonly windows?: readonly (number | null)[];
}
