/**
 * A page at rest: a file that says what it is and is believed only if it is whole. The same bytes as on the host
 * (Python's `kv/page_disk.py`).
 *
 * It begins with, little-endian: the magic, the version, the sha256 of the producer, the page's key, its bytes, and the
 * sha256 of all that and the payload, which follows.
 */

import { sha256 } from "../digest.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const MAGIC = [0x45, 0x57, 0x4b, 0x56]; // EWKV
const VERSION = 1;
const HASH = 32;
const AT = { version: 4, producer: 8, key: 8 + HASH, bytes: 8 + 2 * HASH, hash: 16 + 2 * HASH };
export const HEADER_BYTES = AT.hash + HASH;

/** What a file must say besides its payload. */
export interface PageName {
  /** sha256 of what computed it. */
  readonly producer: Bytes;
  readonly key: Bytes;
}

export async function encodePage(name: PageName, payload: Uint8Array): Promise<Bytes> {
  const file = new Uint8Array(HEADER_BYTES + payload.length);
  file.set(headOf(name, payload.length));
  file.set(payload, HEADER_BYTES);
  file.set(await hashOf(file), AT.hash);
  return file;
}

/** The payload of a file; null for one that is not whole, or of another page. */
export async function decodePage(
  name: PageName,
  bytes: number,
  file: Bytes,
): Promise<Bytes | null> {
  if (file.length !== HEADER_BYTES + bytes) return null;
  if (!same(file.subarray(0, AT.hash), headOf(name, bytes))) return null;
  if (!same(file.subarray(AT.hash, HEADER_BYTES), await hashOf(file))) return null;
  return file.slice(HEADER_BYTES);
}

function headOf({ producer, key }: PageName, bytes: number): Bytes {
  const head = new Uint8Array(AT.hash);
  head.set(MAGIC);
  const view = new DataView(head.buffer);
  view.setUint32(AT.version, VERSION, true);
  head.set(producer, AT.producer);
  head.set(key, AT.key);
  view.setBigUint64(AT.bytes, BigInt(bytes), true);
  return head;
}

/** The sha256 of a file without the place for it. */
function hashOf(file: Bytes): Promise<Bytes> {
  const data = new Uint8Array(file.length - HASH);
  data.set(file.subarray(0, AT.hash));
  data.set(file.subarray(HEADER_BYTES), AT.hash);
  return sha256(data);
}

function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
