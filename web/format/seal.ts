/**
 * The digest that `bundle.json` carries of itself.
 *
 * The file begins with `{"digest":"<64 hexadecimal digits>",`, the sha256 of all bytes that follow, so
 * that nothing of it changes unnoticed. Whoever writes the file can write the digest, too: it finds
 * damage, not attackers.
 */

import { sha256Hex } from "../digest.ts";
import { EdgewiseError } from "../errors.ts";
import { parseJson } from "./json.ts";
import { Fields } from "./reading.ts";

const MANIFEST = "bundle.json";
/** Of the whole format: of `bundle.json` and of plans. */
export const VERSION = 4;
/** Bytes of `bundle.json` at most. */
export const MAX_BYTES = 1 << 24;
/** Values in it at most, as `countValues` counts them. */
const MAX_VALUES = 1 << 18;

const BEGINS = '{"digest":"';
const ENDS = '",';
const HEAD = BEGINS.length + 64 + ENDS.length;

/** The digest that the file of a manifest begins with, which `unseal` checks. */
export function digestOf(data: Uint8Array): string {
  return new TextDecoder().decode(data.subarray(BEGINS.length, BEGINS.length + 64));
}

/**
 * What the file of a manifest says, without its digest, once that proved right.
 *
 * @throws EdgewiseError `bundle.checksum` for another digest or none, `bundle.version` for a file of
 *   another version that has none, `bundle.json` and `bundle.size`.
 */
export async function unseal(data: Uint8Array): Promise<unknown> {
  if (data.length > MAX_BYTES) {
    const message = `${MANIFEST} has ${data.length} bytes; ${MAX_BYTES} are read at most.`;
    throw new EdgewiseError("bundle.size", message);
  }
  const rest = data.slice(HEAD);
  if (!begins(data, BEGINS + (await sha256Hex(rest)) + ENDS)) {
    if (!begins(data, BEGINS)) checkVersion(parse(data));
    throw new EdgewiseError(
      "bundle.checksum",
      `${MANIFEST} is damaged: its sha256 is not the one that it begins with.`,
      "Copy or compile the bundle again.",
    );
  }
  const inside = new Uint8Array(1 + rest.length);
  inside[0] = BEGINS.charCodeAt(0);
  inside.set(rest, 1);
  return parse(inside);
}

/**
 * A manifest's fields, if its version is the one that is read here.
 *
 * @throws EdgewiseError `bundle.version`, `bundle.type`, `bundle.missing`.
 */
export function checkVersion(value: unknown): Fields {
  const fields = new Fields(value, MANIFEST, "bundle");
  fields.version(VERSION);
  return fields;
}

function begins(data: Uint8Array, text: string): boolean {
  const start = data.subarray(0, text.length);
  return start.length === text.length && start.every((byte, i) => byte === text.charCodeAt(i));
}

function parse(data: Uint8Array): unknown {
  return parseJson(data, MANIFEST, "bundle", MAX_VALUES);
}
