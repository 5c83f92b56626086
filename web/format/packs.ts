/**
 * `prefixes/<target>-<arithmetic>/index.json`: the prompts whose KV pages a bundle ships for its programs of one target
 * and arithmetic. As Python's `format/packs.py`.
 */

import { hex } from "../digest.ts";
import { TABLES } from "./abi.ts";
import { parseJson } from "./json.ts";
import type { BundleManifest, Program } from "./manifest.ts";
import { Fields, HEX_SHA256, ID, LIMIT } from "./reading.ts";
import { Footprint, groupKey } from "./state.ts";

/** Of an index, and of one whose model has windows. */
const VERSION = 1;
const WINDOWED = 2;
/** Bytes of an index at most. */
export const MAX_BYTES = 1 << 24;
/** Packs of an index, and pages of all of them, at most. */
const MAX_PACKS = 256;
const MAX_PAGES = 1 << 16;
const MAX_PRODUCER = 1024;

/** One prompt's beginning. */
export interface Pack {
  /** For people. */
  readonly name: string;
  /** The sha256 of its token ids. */
  readonly prompt: string;
  /** Of its pages in order, in hex. */
  readonly keys: readonly string[];
  /** How fast they were computed, where they were; 0 where nobody knows. */
  readonly prefillTokensPerSecond: number;
}

/** All packs of programs that compute alike, whose pages one of them has computed. */
export interface PackIndex {
  /** Its code and plans. */
  readonly producer: string;
  /** On what it ran, as far as that decides about bits. */
  readonly device: string;
  readonly pageTokens: number;
  /** Bytes of a page's file. */
  readonly fileBytes: number;
  /** The windows of the model's state groups, null for one that has none; without any, nothing is said of them. */
  readonly windows?: readonly (number | null)[];
  readonly packs: readonly Pack[];
}

/** What decides which pages a pack has, beside its keys. */
type Shape = Pick<PackIndex, "windows" | "pageTokens">;

/** The folder in a bundle of what is shipped for a program, and those that compute alike. */
export function placeOf({ target, arithmetic }: Pick<Program, "target" | "arithmetic">): string {
  return `prefixes/${target}-${arithmetic}`;
}

export function indexPath(place: string): string {
  return `${place}/index.json`;
}

/** @param key in hex. */
export function pagePath(place: string, key: string): string {
  return `${place}/${key}.kv`;
}

/**
 * What the files of all pages are called, in hex. Of a state group with a window a pack has those pages that a prompt sees
 * which goes on where it ends.
 */
export async function filesOf(index: PackIndex): Promise<ReadonlySet<string>> {
  const names = await Promise.all(
    index.packs.flatMap((pack) =>
      groupsOf(index, pack).flatMap((keys, group) =>
        keys.map(async (key) => hex(await groupKey(unhex(key), group))),
      ),
    ),
  );
  return new Set(names);
}

/** The keys of a pack's tokens of which each state group has a page. */
function groupsOf({ windows = [null], pageTokens }: Shape, { keys }: Pack): (readonly string[])[] {
  const footprint = new Footprint(windows, 0, pageTokens);
  return windows.map((one) => keys.slice(footprint.behind(one, keys.length * pageTokens)));
}

/** What the files of its pages say of who computed them. */
export function computedBy({ producer, device }: PackIndex): string {
  return `${producer}/${device}`;
}

/**
 * Read an index that nobody vouches for, of a bundle that lists these files.
 *
 * @throws EdgewiseError `bundle.*`: whatever is wrong with it; nothing else.
 */
export async function parseIndex(
  data: Uint8Array,
  place: string,
  { files }: Pick<BundleManifest, "files">,
): Promise<PackIndex> {
  const value = parseJson(data, indexPath(place), "bundle");
  return readIndex(value, place, (path) => files.get(path)?.bytes);
}

/** `parseIndex` of parsed JSON, told the bytes of each file of the bundle. */
export async function readIndex(
  value: unknown,
  place: string,
  bytesOf: (path: string) => number | undefined,
): Promise<PackIndex> {
  const where = indexPath(place);
  const fields = new Fields(value, where, "bundle");
  const windowed = fields.get("version") === WINDOWED;
  fields.version(windowed ? WINDOWED : VERSION);
  const windows = windowed ? { windows: readWindows(fields) } : {};
  const listed = fields.items("packs", MAX_PACKS);
  const index = {
    producer: fields.text("producer", null, MAX_PRODUCER),
    device: fields.text("device", null, MAX_PRODUCER),
    pageTokens: fields.integer("page_tokens", 1, 2 ** 12),
    fileBytes: fields.integer("file_bytes", 1, LIMIT - 1),
    ...windows,
    packs: listed.map((one) => readPack(new Fields(one, `${where}, a pack`, "bundle"))),
  };
  fields.done();
  if (new Set(index.packs.map(({ name }) => name)).size < index.packs.length) {
    throw fields.fail("duplicate", "two packs have one name");
  }
  const counts = index.packs.flatMap((pack) => groupsOf(index, pack).map(({ length }) => length));
  if (counts.reduce((sum, count) => sum + count, 0) > MAX_PAGES) {
    throw fields.fail("range", `more than ${MAX_PAGES} pages`);
  }
  for (const key of await filesOf(index)) {
    const path = pagePath(place, key);
    const bytes = bytesOf(path);
    if (bytes === undefined) throw fields.fail("unknown_name", `'files' does not list ${path}`);
    if (bytes !== index.fileBytes) {
      throw fields.fail("size", `${path} has ${bytes} bytes, not ${index.fileBytes}`);
    }
  }
  return index;
}

function readWindows(fields: Fields): readonly (number | null)[] {
  const listed = fields.items("windows", TABLES.length);
  const windows = listed.filter((one) => one === null || isWindow(one));
  if (windows.length === listed.length && windows.some((one) => one !== null)) return windows;
  throw fields.fail("range", "'windows' holds something that is no window, or none");
}

function isWindow(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 1;
}

function readPack(fields: Fields): Pack {
  const listed = fields.items("keys", MAX_PAGES);
  const keys = listed.filter(isKey);
  if (keys.length === 0 || keys.length < listed.length) {
    throw fields.fail("name", "'keys' holds something that is no key of a page");
  }
  const pack = {
    name: fields.text("name", ID),
    prompt: fields.text("prompt", HEX_SHA256),
    keys,
    prefillTokensPerSecond: fields.integer("prefill_tokens_per_s", 0, LIMIT - 1),
  };
  fields.done();
  return pack;
}

function isKey(key: unknown): key is string {
  return typeof key === "string" && HEX_SHA256.test(key);
}

/** The bytes of a key. */
function unhex(key: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(key.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));
}
