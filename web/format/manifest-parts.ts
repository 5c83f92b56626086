/** What the readers of every part of `bundle.json` share. */

import { shorten } from "../errors.ts";
import { Fields } from "./reading.ts";

/**
 * Relative paths with forward slashes whose parts begin with a letter, digit or underscore: never
 * absolute, never `..`, no backslash, drive letter, NUL or hidden file.
 */
const PATH = /^(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*\/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*$/;
const MAX_PATH = 512;

/** One object of the manifest; its errors are `bundle.*`. */
export function part(value: unknown, where: string): Fields {
  return new Fields(value, where, "bundle");
}

export function mapValues<T>(
  table: ReadonlyMap<string, unknown>,
  read: (value: unknown, key: string) => T,
): Map<string, T> {
  return new Map([...table].map(([key, value]) => [key, read(value, key)]));
}

/** Refuse a path that could leave the bundle. */
export function checkPath(fields: Fields, path: string): void {
  if (path.length > MAX_PATH || !PATH.test(path) || path === "bundle.json") {
    throw fields.fail("path", `${shorten(path)} is no plain relative path`);
  }
}

export function readPath(fields: Fields, key: string): string {
  const path = fields.text(key, null, MAX_PATH);
  checkPath(fields, path);
  return path;
}

/** Whole numbers of a list, each in `low..high`. */
export function integers(
  fields: Fields,
  key: string,
  most: number,
  low: number,
  high: number,
): readonly number[] {
  return fields.items(key, most).map((item) => {
    if (typeof item !== "number" || !Number.isInteger(item) || item < low || item > high) {
      throw fields.fail("range", `${shorten(key)} holds ${shorten(item)}, outside ${low}..${high}`);
    }
    return item;
  });
}
