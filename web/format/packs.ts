/**
 * `prefixes/<target>-<arithmetic>/index.json`: the prompts whose KV pages a bundle ships for its programs of one target
 * and arithmetic. As Python's `format/packs.py`.
 */

import { parseJson } from "./json.ts";
import type { BundleManifest, Program } from "./manifest.ts";
import { Fields, HEX_SHA256, ID, LIMIT } from "./reading.ts";

const VERSION = 1;
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
  readonly packs: readonly Pack[];
}

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

/** The keys of all pages, in hex. */
export function keysOf({ packs }: PackIndex): ReadonlySet<string> {
  return new Set(packs.flatMap(({ keys }) => keys));
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
export function parseIndex(
  data: Uint8Array,
  place: string,
  { files }: Pick<BundleManifest, "files">,
): PackIndex {
  const value = parseJson(data, indexPath(place), "bundle");
  return readIndex(value, place, (path) => files.get(path)?.bytes);
}

/** `parseIndex` of parsed JSON, told the bytes of each file of the bundle. */
export function readIndex(
  value: unknown,
  place: string,
  bytesOf: (path: string) => number | undefined,
): PackIndex {
  const where = indexPath(place);
  const fields = new Fields(value, where, "bundle");
  fields.version(VERSION);
  const listed = fields.items("packs", MAX_PACKS);
  const index = {
    producer: fields.text("producer", null, MAX_PRODUCER),
    device: fields.text("device", null, MAX_PRODUCER),
    pageTokens: fields.integer("page_tokens", 1, 2 ** 12),
    fileBytes: fields.integer("file_bytes", 1, LIMIT - 1),
    packs: listed.map((one) => readPack(new Fields(one, `${where}, a pack`, "bundle"))),
  };
  fields.done();
  if (new Set(index.packs.map(({ name }) => name)).size < index.packs.length) {
    throw fields.fail("duplicate", "two packs have one name");
  }
  if (index.packs.reduce((sum, { keys }) => sum + keys.length, 0) > MAX_PAGES) {
    throw fields.fail("range", `more than ${MAX_PAGES} pages`);
  }
  for (const key of keysOf(index)) {
    const path = pagePath(place, key);
    const bytes = bytesOf(path);
    if (bytes === undefined) throw fields.fail("unknown_name", `'files' does not list ${path}`);
    if (bytes !== index.fileBytes) {
      throw fields.fail("size", `${path} has ${bytes} bytes, not ${index.fileBytes}`);
    }
  }
  return index;
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
