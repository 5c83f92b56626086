/** Named values as files: any key has a short file name, and a file says which key it is of. */

import { sha256Hex } from "../digest.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Two uint32, little endian: the bytes of the key and of the data that follow. */
const HEADER = 8;

/** A key's file name (hex, as not every file system tells upper from lower case) and contents. */
export async function packNote(
  key: string,
  data: Uint8Array,
): Promise<{ readonly name: string; readonly file: Bytes }> {
  const encoded = new TextEncoder().encode(key);
  const file = new Uint8Array(HEADER + encoded.length + data.length);
  const header = new DataView(file.buffer);
  header.setUint32(0, encoded.length, true);
  header.setUint32(4, data.length, true);
  file.set(encoded, HEADER);
  file.set(data, HEADER + encoded.length);
  return { name: await sha256Hex(encoded), file };
}

/** Null for a file that is cut short or no note. */
export function unpackNote(file: Bytes): { readonly key: string; readonly data: Bytes } | null {
  if (file.length < HEADER) return null;
  const header = new DataView(file.buffer, file.byteOffset);
  const from = HEADER + header.getUint32(0, true);
  if (from + header.getUint32(4, true) !== file.length) return null;
  return { key: new TextDecoder().decode(file.subarray(HEADER, from)), data: file.slice(from) };
}
